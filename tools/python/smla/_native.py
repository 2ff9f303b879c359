"""The structs, constants and functions of smla.h, by hand. tests/python/test_native.py compares them with the
header."""

import ctypes

ABI_VERSION = 1

OK = 0
ERROR_INVALID_ARGUMENT = 1
ERROR_UNSUPPORTED = 2
ERROR_UNAVAILABLE = 3
ERROR_NOT_CACHED = 4
ERROR_COMPILE = 5
ERROR_IO = 6
ERROR_OUT_OF_MEMORY = 7
ERROR_DRIVER = 8
ERROR_INTERNAL = 9
PENDING = 10
ERROR_TIMEOUT = 11
ERROR_SELF_TEST = 12

WAIT_FOREVER = 0xFFFFFFFF

CONTEXT_PRIMARY = 1 << 0
CONTEXT_UNVERIFIED = 1 << 2
CONTEXT_SELF_TEST = 1 << 3

TRUST_NONE = 0
TRUST_EMULATED = 1
TRUST_VERIFIED = 2

OP_PREFILL = 1
OP_PREFILL_REFERENCE = 2
OP_COMBINE = 3
OP_DECODE = 4

VALUE_BF16 = 1
VALUE_E4M3 = 2
VALUE_E2M1 = 3

SCALE_NONE = 0
SCALE_FP32 = 1
SCALE_UE8M0 = 2
SCALE_E4M3 = 3

PLACE_TOKEN = 1
PLACE_PAGE = 2

LSE_BASE_2 = 1 << 0
LSE_WITH_SINK = 1 << 1
LSE_EMPTY_NEGATIVE = 1 << 2

LAUNCH_AFTER_PREVIOUS = 1 << 0

DECODE_LENGTHS_PER_REQUEST = 1 << 0
DECODE_EXTRA_LENGTHS_PER_REQUEST = 1 << 1

KERNEL_CHECKED = 1 << 0
KERNEL_NOT_PERSISTENT = 1 << 1

DTYPE_BF16 = 0
DTYPE_FLOAT32 = 1

LOG_WARNING = 1
LOG_INFO = 2
LOG_DEBUG = 3

LogFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)


class _Sized(ctypes.Structure):
    """A struct of smla.h: `struct_size` comes first and is filled in."""

    def __init__(self, **fields: object) -> None:
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class ErrorInfo(_Sized):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("status", ctypes.c_int32),
        ("native_code", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("message", ctypes.c_char_p),
        ("path", ctypes.c_char_p),
        ("log", ctypes.c_char_p),
    ]


class ContextDesc(_Sized):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("cache_policy", ctypes.c_uint32),
        ("jit_policy", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("driver_path", ctypes.c_char_p),
        ("nvrtc_path", ctypes.c_char_p),
        ("cache_dir", ctypes.c_char_p),
        ("log", LogFunction),
        ("log_user", ctypes.c_void_p),
        ("bundles", ctypes.c_char_p),
        ("compile_limit_ms", ctypes.c_uint32),
        ("reserved_2", ctypes.c_uint32),
        ("disable", ctypes.c_char_p),
        ("cache_bytes", ctypes.c_uint64),
    ]


class KvLayout(_Sized):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("value_type", ctypes.c_uint32),
        ("value_elems", ctypes.c_int32),
        ("scale_type", ctypes.c_uint32),
        ("scale_group", ctypes.c_int32),
        ("scale_bytes", ctypes.c_int32),
        ("tail_elems", ctypes.c_int32),
        ("place", ctypes.c_uint32),
    ]


class KernelDesc(_Sized):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("op", ctypes.c_uint32),
        ("h_q", ctypes.c_int32),
        ("d_qk", ctypes.c_int32),
        ("d_v", ctypes.c_int32),
        ("batch_invariant", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("kv_format", ctypes.c_char_p),
        ("extra_kv_format", ctypes.c_char_p),
        ("target", ctypes.c_char_p),
        ("kv_layout", ctypes.POINTER(KvLayout)),
        ("extra_kv_layout", ctypes.POINTER(KvLayout)),
    ]


class Support(_Sized):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("supported", ctypes.c_uint32),
        ("launches", ctypes.c_uint32),
        ("variants", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("shared_bytes", ctypes.c_uint32),
        ("pointer_alignment", ctypes.c_uint32),
        ("stride_alignment", ctypes.c_uint32),
        ("target", ctypes.c_char * 8),
        ("variant", ctypes.c_char * 64),
        ("kernel_id", ctypes.c_char * 72),
        ("reason", ctypes.c_char * 512),
        ("blocks_per_sm", ctypes.c_uint32),
        ("companion", ctypes.c_char * 64),
        ("companion_id", ctypes.c_char * 72),
        ("trust", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("status", ctypes.c_char * 128),
        ("switched_off", ctypes.c_char * 256),
    ]


class PrefillArgs(_Sized):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("lse_flags", ctypes.c_uint32),
        ("s_q", ctypes.c_int64),
        ("s_kv", ctypes.c_int64),
        ("topk", ctypes.c_int64),
        ("sm_scale", ctypes.c_float),
        ("reserved", ctypes.c_uint32),
        ("query", ctypes.c_void_p),
        ("query_stride_token", ctypes.c_int64),
        ("query_stride_head", ctypes.c_int64),
        ("kv", ctypes.c_void_p),
        ("kv_stride_token", ctypes.c_int64),
        ("indices", ctypes.c_void_p),
        ("indices_stride_token", ctypes.c_int64),
        ("topk_length", ctypes.c_void_p),
        ("topk_length_stride", ctypes.c_int64),
        ("attn_sink", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("out_stride_token", ctypes.c_int64),
        ("out_stride_head", ctypes.c_int64),
        ("lse", ctypes.c_void_p),
        ("lse_stride_token", ctypes.c_int64),
        ("max_logits", ctypes.c_void_p),
        ("max_logits_stride_token", ctypes.c_int64),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_uint64),
        ("ref_out_abs", ctypes.c_void_p),
        ("ref_logit_abs", ctypes.c_void_p),
        ("kv_page_tokens", ctypes.c_int64),
        ("kv_stride_page", ctypes.c_int64),
        ("extra_s_kv", ctypes.c_int64),
        ("extra_topk", ctypes.c_int64),
        ("extra_kv", ctypes.c_void_p),
        ("extra_kv_stride_token", ctypes.c_int64),
        ("extra_kv_page_tokens", ctypes.c_int64),
        ("extra_kv_stride_page", ctypes.c_int64),
        ("extra_indices", ctypes.c_void_p),
        ("extra_indices_stride_token", ctypes.c_int64),
        ("extra_topk_length", ctypes.c_void_p),
        ("extra_topk_length_stride", ctypes.c_int64),
        ("sm_limit", ctypes.c_int32),
        ("launch_flags", ctypes.c_uint32),
    ]


class DecodeArgs(_Sized):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("lse_flags", ctypes.c_uint32),
        ("decode_flags", ctypes.c_uint32),
        ("sm_scale", ctypes.c_float),
        ("b", ctypes.c_int64),
        ("s_q", ctypes.c_int64),
        ("s_kv", ctypes.c_int64),
        ("topk", ctypes.c_int64),
        ("query", ctypes.c_void_p),
        ("query_stride_request", ctypes.c_int64),
        ("query_stride_token", ctypes.c_int64),
        ("query_stride_head", ctypes.c_int64),
        ("kv", ctypes.c_void_p),
        ("kv_page_tokens", ctypes.c_int64),
        ("kv_stride_page", ctypes.c_int64),
        ("kv_stride_token", ctypes.c_int64),
        ("indices", ctypes.c_void_p),
        ("indices_stride_request", ctypes.c_int64),
        ("indices_stride_token", ctypes.c_int64),
        ("topk_length", ctypes.c_void_p),
        ("topk_length_stride_request", ctypes.c_int64),
        ("topk_length_stride", ctypes.c_int64),
        ("attn_sink", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("out_stride_request", ctypes.c_int64),
        ("out_stride_token", ctypes.c_int64),
        ("out_stride_head", ctypes.c_int64),
        ("lse", ctypes.c_void_p),
        ("lse_stride_request", ctypes.c_int64),
        ("lse_stride_token", ctypes.c_int64),
        ("lse_stride_head", ctypes.c_int64),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_uint64),
        ("extra_s_kv", ctypes.c_int64),
        ("extra_topk", ctypes.c_int64),
        ("extra_kv", ctypes.c_void_p),
        ("extra_kv_page_tokens", ctypes.c_int64),
        ("extra_kv_stride_page", ctypes.c_int64),
        ("extra_kv_stride_token", ctypes.c_int64),
        ("extra_indices", ctypes.c_void_p),
        ("extra_indices_stride_request", ctypes.c_int64),
        ("extra_indices_stride_token", ctypes.c_int64),
        ("extra_topk_length", ctypes.c_void_p),
        ("extra_topk_length_stride_request", ctypes.c_int64),
        ("extra_topk_length_stride", ctypes.c_int64),
        ("sm_limit", ctypes.c_int32),
        ("launch_flags", ctypes.c_uint32),
    ]


class CombineArgs(_Sized):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("lse_flags", ctypes.c_uint32),
        ("partial_lse_flags", ctypes.c_uint32),
        ("partial_dtype", ctypes.c_uint32),
        ("out_dtype", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("parts", ctypes.c_int64),
        ("s_q", ctypes.c_int64),
        ("partial_out", ctypes.c_void_p),
        ("partial_out_stride_part", ctypes.c_int64),
        ("partial_out_stride_token", ctypes.c_int64),
        ("partial_out_stride_head", ctypes.c_int64),
        ("partial_lse", ctypes.c_void_p),
        ("partial_lse_stride_part", ctypes.c_int64),
        ("partial_lse_stride_token", ctypes.c_int64),
        ("partial_lse_stride_head", ctypes.c_int64),
        ("attn_sink", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("out_stride_token", ctypes.c_int64),
        ("out_stride_head", ctypes.c_int64),
        ("lse", ctypes.c_void_p),
        ("lse_stride_token", ctypes.c_int64),
        ("lse_stride_head", ctypes.c_int64),
        ("launch_flags", ctypes.c_uint32),
        ("reserved_2", ctypes.c_uint32),
    ]


class StatsCounters(_Sized):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("memory_hits", ctypes.c_uint64),
        ("disk_hits", ctypes.c_uint64),
        ("misses", ctypes.c_uint64),
        ("compiles", ctypes.c_uint64),
        ("compile_failures", ctypes.c_uint64),
        ("compile_ns", ctypes.c_uint64),
        ("shared_waits", ctypes.c_uint64),
        ("entries_written", ctypes.c_uint64),
        ("entries_damaged", ctypes.c_uint64),
        ("cache_errors", ctypes.c_uint64),
        ("refused_compiles", ctypes.c_uint64),
        ("kernels_loaded", ctypes.c_uint64),
        ("load_ns", ctypes.c_uint64),
        ("node_waits", ctypes.c_uint64),
        ("node_wait_ns", ctypes.c_uint64),
        ("bundle_hits", ctypes.c_uint64),
        ("system_hits", ctypes.c_uint64),
        ("compile_timeouts", ctypes.c_uint64),
        ("remembered_failures", ctypes.c_uint64),
        ("events", ctypes.c_uint64),
        ("self_tests", ctypes.c_uint64),
        ("self_test_failures", ctypes.c_uint64),
        ("self_test_ns", ctypes.c_uint64),
        ("entries_refused", ctypes.c_uint64),
        ("driver_ns", ctypes.c_uint64),
    ]


# Name in C: class here. The test of the layout reads this table.
STRUCTS = {
    "smla_error_info": ErrorInfo,
    "smla_context_desc": ContextDesc,
    "smla_kv_layout": KvLayout,
    "smla_kernel_desc": KernelDesc,
    "smla_support": Support,
    "smla_prefill_args": PrefillArgs,
    "smla_decode_args": DecodeArgs,
    "smla_combine_args": CombineArgs,
    "smla_stats_counters": StatsCounters,
}

# Name in C: value here, for the same test.
CONSTANTS = {
    "SMLA_OK": OK,
    "SMLA_ERROR_INVALID_ARGUMENT": ERROR_INVALID_ARGUMENT,
    "SMLA_ERROR_UNSUPPORTED": ERROR_UNSUPPORTED,
    "SMLA_ERROR_UNAVAILABLE": ERROR_UNAVAILABLE,
    "SMLA_ERROR_NOT_CACHED": ERROR_NOT_CACHED,
    "SMLA_ERROR_COMPILE": ERROR_COMPILE,
    "SMLA_ERROR_IO": ERROR_IO,
    "SMLA_ERROR_OUT_OF_MEMORY": ERROR_OUT_OF_MEMORY,
    "SMLA_ERROR_DRIVER": ERROR_DRIVER,
    "SMLA_ERROR_INTERNAL": ERROR_INTERNAL,
    "SMLA_PENDING": PENDING,
    "SMLA_ERROR_TIMEOUT": ERROR_TIMEOUT,
    "SMLA_ERROR_SELF_TEST": ERROR_SELF_TEST,
    "SMLA_WAIT_FOREVER": WAIT_FOREVER,
    "SMLA_CONTEXT_PRIMARY": CONTEXT_PRIMARY,
    "SMLA_CONTEXT_UNVERIFIED": CONTEXT_UNVERIFIED,
    "SMLA_CONTEXT_SELF_TEST": CONTEXT_SELF_TEST,
    "SMLA_TRUST_NONE": TRUST_NONE,
    "SMLA_TRUST_EMULATED": TRUST_EMULATED,
    "SMLA_TRUST_VERIFIED": TRUST_VERIFIED,
    "SMLA_OP_PREFILL": OP_PREFILL,
    "SMLA_OP_PREFILL_REFERENCE": OP_PREFILL_REFERENCE,
    "SMLA_OP_COMBINE": OP_COMBINE,
    "SMLA_OP_DECODE": OP_DECODE,
    "SMLA_VALUE_BF16": VALUE_BF16,
    "SMLA_VALUE_E4M3": VALUE_E4M3,
    "SMLA_VALUE_E2M1": VALUE_E2M1,
    "SMLA_SCALE_NONE": SCALE_NONE,
    "SMLA_SCALE_FP32": SCALE_FP32,
    "SMLA_SCALE_UE8M0": SCALE_UE8M0,
    "SMLA_SCALE_E4M3": SCALE_E4M3,
    "SMLA_PLACE_TOKEN": PLACE_TOKEN,
    "SMLA_PLACE_PAGE": PLACE_PAGE,
    "SMLA_LSE_BASE_2": LSE_BASE_2,
    "SMLA_LSE_WITH_SINK": LSE_WITH_SINK,
    "SMLA_LSE_EMPTY_NEGATIVE": LSE_EMPTY_NEGATIVE,
    "SMLA_LAUNCH_AFTER_PREVIOUS": LAUNCH_AFTER_PREVIOUS,
    "SMLA_DECODE_LENGTHS_PER_REQUEST": DECODE_LENGTHS_PER_REQUEST,
    "SMLA_DECODE_EXTRA_LENGTHS_PER_REQUEST": DECODE_EXTRA_LENGTHS_PER_REQUEST,
    "SMLA_KERNEL_CHECKED": KERNEL_CHECKED,
    "SMLA_KERNEL_NOT_PERSISTENT": KERNEL_NOT_PERSISTENT,
    "SMLA_DTYPE_BF16": DTYPE_BF16,
    "SMLA_DTYPE_FLOAT32": DTYPE_FLOAT32,
    "SMLA_LOG_WARNING": LOG_WARNING,
    "SMLA_LOG_INFO": LOG_INFO,
    "SMLA_LOG_DEBUG": LOG_DEBUG,
}

_POINTER = ctypes.POINTER
_STATUS = ctypes.c_int32
_HANDLE = ctypes.c_void_p

# Name: (result, arguments).
_FUNCTIONS = {
    "smla_status_text": (ctypes.c_char_p, [_STATUS]),
    "smla_last_error": (_STATUS, [_POINTER(ErrorInfo)]),
    "smla_version": (ctypes.c_char_p, []),
    "smla_abi_version": (ctypes.c_uint32, []),
    "smla_context_create": (_STATUS, [_POINTER(ContextDesc), _POINTER(_HANDLE)]),
    "smla_context_seal": (_STATUS, [_HANDLE]),
    "smla_context_mute": (_STATUS, [_HANDLE]),
    "smla_context_destroy": (None, [_HANDLE]),
    "smla_kv_layout_preset": (_STATUS, [ctypes.c_char_p, ctypes.c_int32, _POINTER(KvLayout)]),
    "smla_query_support": (_STATUS, [_HANDLE, _POINTER(KernelDesc), _POINTER(Support)]),
    "smla_prepare": (_STATUS, [_HANDLE, _POINTER(KernelDesc), _POINTER(_HANDLE)]),
    "smla_prepare_start": (_STATUS, [_HANDLE, _POINTER(KernelDesc), _POINTER(_HANDLE)]),
    "smla_prepare_poll": (_STATUS, [_HANDLE, _POINTER(_HANDLE)]),
    "smla_prepare_wait": (_STATUS, [_HANDLE, ctypes.c_uint32, _POINTER(_HANDLE)]),
    "smla_prepare_destroy": (None, [_HANDLE]),
    "smla_kernel_destroy": (None, [_HANDLE]),
    "smla_prefill_workspace_size": (_STATUS, [_HANDLE, ctypes.c_int64, ctypes.c_int64, _POINTER(ctypes.c_uint64)]),
    "smla_prefill_wanted_workspace_size": (
        _STATUS,
        [_HANDLE, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, _POINTER(ctypes.c_uint64)],
    ),
    "smla_prefill": (_STATUS, [_HANDLE, _POINTER(PrefillArgs), ctypes.c_void_p]),
    "smla_decode_workspace_size": (_STATUS, [_HANDLE] + [ctypes.c_int64] * 4 + [_POINTER(ctypes.c_uint64)]),
    "smla_decode": (_STATUS, [_HANDLE, _POINTER(DecodeArgs), ctypes.c_void_p]),
    "smla_combine": (_STATUS, [_HANDLE, _POINTER(CombineArgs), ctypes.c_void_p]),
    "smla_stats": (_STATUS, [_HANDLE, _POINTER(StatsCounters)]),
    "smla_stats_json": (_STATUS, [_HANDLE, ctypes.c_char_p, ctypes.c_size_t, _POINTER(ctypes.c_size_t)]),
}


def bind(library: ctypes.CDLL) -> None:
    """Sets result and argument types of every function used. AttributeError when the library lacks one."""
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
