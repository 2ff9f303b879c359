"""The low-level call: all of smla_prefill_args, on tensors."""

import contextlib
import math
from typing import Any, Dict, Mapping, Optional, Tuple

from . import _caches, _native, _outputs, _plain, _tensor
from ._context import Description, Kernel, context
from ._driver import driver
from ._kv_format import AnyFormat, KvFormat, resolve
from ._staging import Staging
from ._tensor import Tensor
from .errors import InvalidArgumentError, UnsupportedError

_BF16 = _caches.BF16
_OUTPUTS = ("out", "lse", "max_logits")


def resolve_stream(stream: Any, value: Any) -> Optional[int]:
    """The CUstream as a number, from a number, an object of torch, cupy or cuda.core, or None: then torch's current
    stream of the tensor's device, the NULL stream included; the producer's where __cuda_array_interface__ names it;
    else None."""
    if stream is None:
        if _tensor.is_torch(value) and value.device.type == "cuda":
            return _tensor.torch_module().cuda.current_stream(value.device).cuda_stream
        return (getattr(value, "__cuda_array_interface__", None) or {}).get("stream")
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr"):
        if isinstance(getattr(stream, attribute, None), int):
            return getattr(stream, attribute)
    raise InvalidArgumentError(
        f"stream is a {type(stream).__name__}: give a CUstream as a number, or a stream of torch, cupy or cuda.core"
    )


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidArgumentError(message)


def _say(tensor: Tensor) -> str:
    return f"{list(tensor.shape)} {tensor.dtype}"


def _drop_kv_head(tensor: Tensor, name: str) -> Tensor:
    """[n, 1, m] as [n, m]: the one key/value head."""
    if len(tensor.shape) != 3:
        return tensor
    if tensor.shape[1] != 1:
        pages = f" (or, with {name}_page_tokens, the tokens of a page)" if name.endswith("kv") else ""
        raise UnsupportedError(
            f"{name} is {_say(tensor)}: all query heads share one key/value head, so its second dimension is 1{pages}"
        )
    return Tensor(
        tensor.pointer,
        (tensor.shape[0], tensor.shape[2]),
        (tensor.strides[0], tensor.strides[2]),
        tensor.dtype,
        tensor.device,
        tensor.kind,
        tensor.owner,
        tensor.stream,
    )


def _settle(value: Any, tensor: Tensor) -> Any:
    """A copy of an input that an expanded (stride 0) dimension makes unfit for the call, else the input."""
    expanded = tensor.numel > 0 and any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.strides))
    if expanded and tensor.kind == "torch":
        return value.contiguous()
    if expanded and tensor.kind == "numpy":
        return _tensor.numpy_module().ascontiguousarray(value)
    _check(not expanded, "a dimension has stride 0: give a contiguous copy")
    return value


class _Call:
    """The tensors of one call, described and checked, all on one device or all on the host."""

    FREE_LAST = ("topk_length", "extra_topk_length")  # whose last dimension may have any stride

    def __init__(self, inputs: Dict[str, Any], caches: Dict[str, _caches.Asked], stream: Optional[int]) -> None:
        self.stream = stream
        self.tensors: Dict[str, Tensor] = {}
        for name, value in inputs.items():
            if value is not None:
                tensor = _tensor.describe(value, name, stream)
                settled = _settle(value, tensor)
                self.tensors[name] = tensor if settled is value else _tensor.describe(settled, name, stream)
        self.rows: Dict[str, _caches.Rows] = {}
        self._check_inputs(caches)

    def _check_inputs(self, caches: Dict[str, _caches.Asked]) -> None:
        query = self.tensors["query"]
        _check(
            len(query.shape) == 3 and query.dtype in _BF16, f"query is {_say(query)}: [s_q, h_q, d_qk] bf16 is needed"
        )
        self.s_q, self.h_q, self.d_qk = query.shape
        for prefix, asked in caches.items():
            self.rows[prefix] = self._rows(f"{prefix}kv", asked)
            self._check_lists(prefix)
        self._expect("attn_sink", (self.h_q,), ("f32",), "[h_q]")

    def _rows(self, name: str, asked: _caches.Asked) -> _caches.Rows:
        """Where the rows of a cache lie: of bf16 without pages here, else by its format."""
        tensor = self.tensors[name]
        if asked.kv_format is None and asked.page_tokens is None and len(tensor.shape) != 4:
            words = "[s_kv, d_qk] or [s_kv, 1, d_qk]"
            if tensor.dtype in _caches.BYTES:
                words = f"a quantised cache comes with its {name[:-2]}kv_format, and without one {words}"
            self.tensors[name] = tensor = _drop_kv_head(tensor, name)
            self._expect(name, (tensor.shape[0], self.d_qk) if tensor.shape else (), _BF16, words)
            return _caches.Rows(tensor.shape[0], self.stride(name, 0))
        rows = _caches.rows(tensor, resolve(asked.kv_format or "bf16", self.d_qk), asked.page_tokens, name)
        self._check_place(name)
        return rows

    def _check_lists(self, prefix: str) -> None:
        name = f"{prefix}indices"
        self.tensors[name] = indices = _drop_kv_head(self.tensors[name], name)
        shape = (self.s_q, indices.shape[-1]) if indices.shape else ()
        self._expect(name, shape, ("i32",), "[s_q, topk] or [s_q, 1, topk]")
        self._expect(f"{prefix}topk_length", (self.s_q,), ("i32",), "[s_q]")

    @property
    def topk(self) -> int:
        return self.tensors["indices"].shape[-1]

    def _expect(self, name: str, shape: Tuple[int, ...], dtypes: Tuple[str, ...], words: str) -> None:
        tensor = self.tensors.get(name)
        if tensor is None:
            return
        _check(
            bool(shape) and tensor.shape == shape and tensor.dtype in dtypes,
            f"{name} is {_say(tensor)}: {words} {dtypes[0]} is needed, here {list(shape)}",
        )
        _check(
            name in self.FREE_LAST or shape[-1] <= 1 or tensor.numel == 0 or tensor.strides[-1] == 1,
            f"{name}: its last dimension has stride {tensor.strides[-1]}; it must be contiguous",
        )
        self._check_place(name)

    def _check_place(self, name: str) -> None:
        tensor, query = self.tensors[name], self.tensors["query"]
        _check(tensor.device == query.device, f"{name} is on {_place(tensor)} and query on {_place(query)}")

    def check_query_row(self) -> None:
        query = self.tensors["query"]
        _check(
            self.d_qk <= 1 or query.numel == 0 or query.strides[-1] == 1,
            f"query: its last dimension has stride {query.strides[-1]}; it must be contiguous",
        )

    def add_output(self, name: str, value: Any, shape: Tuple[int, ...], dtypes: Tuple[str, ...]) -> None:
        if value is None:
            return
        self.tensors[name] = _tensor.describe(value, name, self.stream)
        self._expect(name, shape, dtypes, "an output of" if len(shape) != 3 else "[s_q, h_q, d_v]")
        tensor = self.tensors[name]
        _check(
            tensor.numel == 0 or all(stride or size <= 1 for size, stride in zip(shape, tensor.strides)),
            f"{name}: a dimension has stride 0, so that its entries are one; give one memory of its own to each",
        )
        _check(not _is_read_only(value), f"{name} is read-only")

    def stride(self, name: str, dimension: int) -> int:
        """In elements; 0, which means contiguous, where the dimension has one entry or the tensor is not there."""
        tensor = self.tensors.get(name)
        if tensor is None or tensor.shape[dimension] <= 1 or tensor.numel == 0:
            return 0
        return tensor.strides[dimension]


def _place(tensor: Tensor) -> str:
    return "the host" if tensor.device is None else f"device {tensor.device}"


def _is_read_only(value: Any) -> bool:
    if _tensor.is_numpy(value):
        return not value.flags.writeable
    if _tensor.is_torch(value):
        return False
    interface = getattr(value, "__cuda_array_interface__", None)
    return bool(interface and interface["data"][1])


def _cache_fields(call: _Call, prefix: str) -> Dict[str, int]:
    """The fields of smla_prefill_args that describe a cache, its pointers excepted."""
    rows, indices = call.rows[prefix], f"{prefix}indices"
    return {
        f"{prefix}s_kv": rows.s_kv,
        f"{prefix}topk": call.tensors[indices].shape[-1],
        f"{prefix}kv_stride_token": rows.stride_token,
        f"{prefix}kv_page_tokens": rows.page_tokens,
        f"{prefix}kv_stride_page": rows.stride_page,
        f"{prefix}indices_stride_token": call.stride(indices, 0),
        f"{prefix}topk_length_stride": call.stride(f"{prefix}topk_length", 0),
    }


def _fill(call: _Call, numbers: Mapping[str, Any], pointers: Mapping[str, Optional[int]]) -> _native.PrefillArgs:
    """numbers: the fields that no tensor tells."""
    caches: Dict[str, int] = {}
    for prefix in call.rows:
        caches.update(_cache_fields(call, prefix))
    return _native.PrefillArgs(
        s_q=call.s_q,
        query_stride_token=call.stride("query", 0),
        query_stride_head=call.stride("query", 1),
        out_stride_token=call.stride("out", 0),
        out_stride_head=call.stride("out", 1),
        lse_stride_token=call.stride("lse", 0),
        max_logits_stride_token=call.stride("max_logits", 0),
        **caches,
        **numbers,
        **pointers,
    )


def _run_on_device(call: _Call, kernel: Kernel, numbers: Mapping[str, Any]) -> None:
    pointers = {name: tensor.pointer or None for name, tensor in call.tensors.items()}
    size = kernel.workspace_size(call.s_q, call.topk, call.rows[""].s_kv)
    workspace = None
    if size:
        workspace = _outputs.allocate(call.tensors["query"], ((size + 3) // 4,), "f32", "workspace", call.stream)
        pointers.update(workspace=_tensor.describe(workspace, "workspace").pointer)
    args = _fill(call, numbers, pointers)
    args.workspace_bytes = size
    kernel.prefill(args, call.stream or 0)


def _run_on_host(call: _Call, kernel: Kernel, numbers: Mapping[str, Any], device: int) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(driver().device(device))
        staging = Staging(driver())
        stack.callback(staging.close)
        pointers = {
            name: (staging.output if name in _OUTPUTS else staging.input)(tensor, name)
            for name, tensor in call.tensors.items()
        }
        size = kernel.workspace_size(call.s_q, call.topk, call.rows[""].s_kv)
        if size:
            pointers.update(workspace=staging.scratch(size))
        args = _fill(call, numbers, pointers)
        args.workspace_bytes = size
        kernel.prefill(args, call.stream or 0)
        staging.copy_back(call.stream or 0)


def _second_cache(
    kv_format: Optional[AnyFormat],
    extra_kv_format: Optional[AnyFormat],
    page_tokens: Optional[int],
    tensors: Mapping[str, Any],
) -> _caches.Asked:
    """What is said of the second cache, whose tensors come together. Its format is the first one's unless said."""
    for name in ("extra_kv", "extra_indices"):
        _check(
            tensors[name] is not None,
            f"{name} is missing: a second cache comes as extra_kv with extra_indices, or no argument of it is given",
        )
    return _caches.Asked(_not_bf16(extra_kv_format or kv_format), page_tokens)


def _not_bf16(kv_format: Optional[AnyFormat]) -> Optional[AnyFormat]:
    _check(
        kv_format is None or isinstance(kv_format, (str, KvFormat)),
        f"kv_format is a {type(kv_format).__name__}: give a preset's name or a smla.kv_formats.KvFormat",
    )
    return None if kv_format == "bf16" else kv_format


def prefill(
    query: Any,
    kv: Any,
    indices: Any,
    sm_scale: float,
    *,
    d_v: int = 512,
    topk_length: Any = None,
    attn_sink: Any = None,
    kv_format: Optional[AnyFormat] = None,
    kv_page_tokens: Optional[int] = None,
    extra_kv: Any = None,
    extra_indices: Any = None,
    extra_topk_length: Any = None,
    extra_kv_format: Optional[AnyFormat] = None,
    extra_kv_page_tokens: Optional[int] = None,
    out: Any = None,
    lse: Any = True,
    max_logits: Any = True,
    lse_base_2: bool = False,
    lse_with_sink: bool = False,
    lse_empty_negative: bool = False,
    batch_invariant: bool = False,
    checked: bool = False,
    not_persistent: bool = False,
    sm_limit: int = 0,
    after_previous: bool = False,
    stream: Any = None,
    device: int = 0,
) -> Tuple[Any, Any, Any]:
    """Sparse attention of s_q independent query tokens: smla_prefill (smla.h has the equations).

    query: [s_q, h_q, d_qk] bf16 (numpy: ml_dtypes.bfloat16, or its bits as uint16). kv: [s_kv, d_qk] or [s_kv, 1, d_qk]
    bf16; its first d_v columns are the values. indices: [s_q, topk] or [s_q, 1, topk] int32; entries outside [0, s_kv)
    are ignored, duplicates count, there is no causal bound. topk_length: [s_q] int32, clamped to [0, topk], or None.
    attn_sink: [h_q] float32, natural logarithms, or None. sm_scale: finite.
    kv_format: None is bf16; else kv is a cache of that format, a preset's name (smla.kv_layout) or a KvFormat of one's
    own, never guessed: bytes (uint8, int8 or float8_e4m3fn) [pages, page_tokens, 1, bytes a token], the same without
    the 1, [pages, bytes a page or more] with kv_page_tokens, or, of a format placed by token, [s_kv, bytes a token].
    Entry i is token i % page_tokens of page i // page_tokens; the stride between pages is free (between tokens too, of
    a format placed by token). bf16 has pages the same way, in elements; of three dimensions, with kv_page_tokens.
    extra_kv, extra_indices, extra_topk_length, extra_kv_page_tokens: a second cache under the same softmax, as the
    first; extra_kv_format is kv_format unless said otherwise ("bf16" too).
    out: None allocates [s_q, h_q, d_v] bf16 like query; or a tensor to write to. lse, max_logits: [s_q, h_q] float32;
    True allocates, None or False leaves it out, or a tensor to write to. lse is a natural logarithm without the sink,
    +inf on an empty row, unless lse_base_2, lse_with_sink or lse_empty_negative say otherwise.

    checked: for hunting a bug; every index, length and extent is looked at first, and InvalidArgumentError names the
    first that cannot be meant ("indices[row 17][slot 43] is 70000: …"; -1 marks an entry that is not there). Waits for
    the stream, so not in a capture.
    not_persistent: SMLA_KERNEL_NOT_PERSISTENT. sm_limit: multiprocessors that it may take, so that other
    kernels run beside it; 0 is all. Kernels that are not persistent do not keep it (query_support's blocks_per_sm
    tells); bits do not depend on it. after_previous: programmatic dependent launch; the kernel may start while the one
    before it in the stream is ending, and waits for it before it reads or writes (smla.h, SMLA_LAUNCH_AFTER_PREVIOUS).

    Strides are free where the kernel's alignment allows (query, kv and out: multiples of 16 bytes from a 16-byte
    boundary); the last dimension is contiguous, topk_length's excepted. Inputs are not changed and nothing is kept.
    stream: a CUstream as a number or a stream object; None is torch's current stream, the NULL stream included. Work on
    device tensors is enqueued, not waited for; it may be captured once the kernel is prepared (smla.prepare). Host
    arrays go to `device` and back, synchronously.

    Returns (out, max_logits, lse), None for what was left out. Raises smla's errors; outputs the caller gave are
    untouched then, unless a kernel had begun to run."""
    flags = (
        lse_base_2 * _native.LSE_BASE_2
        | lse_with_sink * _native.LSE_WITH_SINK
        | lse_empty_negative * _native.LSE_EMPTY_NEGATIVE
    )
    one_cache = extra_kv is extra_indices is extra_topk_length is extra_kv_format is extra_kv_page_tokens is None
    launch_flags = after_previous * _native.LAUNCH_AFTER_PREVIOUS
    if one_cache and not checked and stream is kv_format is kv_page_tokens is None:
        done = _plain.prefill(
            query,
            kv,
            indices,
            sm_scale,
            d_v,
            topk_length,
            attn_sink,
            out,
            lse,
            max_logits,
            flags,
            batch_invariant,
            not_persistent,
            sm_limit,
            launch_flags,
        )
        if done is not None:
            return done
    second = {"extra_kv": extra_kv, "extra_indices": extra_indices, "extra_topk_length": extra_topk_length}
    caches = {"": _caches.Asked(_not_bf16(kv_format), kv_page_tokens)}
    if not one_cache:
        caches["extra_"] = _second_cache(kv_format, extra_kv_format, extra_kv_page_tokens, second)
    number = resolve_stream(stream, query)
    inputs = {"query": query, "kv": kv, "indices": indices, "topk_length": topk_length, "attn_sink": attn_sink}
    call = _Call({**inputs, **second}, caches, number)
    call.check_query_row()
    _check(math.isfinite(sm_scale), f"sm_scale is {sm_scale}: it must be finite, 1/sqrt(d_qk) for instance")
    like = call.tensors["query"]
    place = device if like.device is None else like.device
    kernel = context(place).kernel(
        Description(
            call.h_q,
            call.d_qk,
            d_v,
            batch_invariant=batch_invariant,
            checked=checked,
            not_persistent=not_persistent,
            kv_format=caches[""].kv_format,
            extra_kv_format=(caches["extra_"].kv_format or "bf16") if "extra_" in caches else None,
        )
    )
    rows = (call.s_q, call.h_q)
    out = _outputs.resolve(True if out is None else out, like, rows + (d_v,), "bf16", "out", number)
    lse = _outputs.resolve(lse, like, rows, "f32", "lse", number)
    max_logits = _outputs.resolve(max_logits, like, rows, "f32", "max_logits", number)
    call.add_output("out", out, rows + (d_v,), _BF16)
    call.add_output("lse", lse, rows, ("f32",))
    call.add_output("max_logits", max_logits, rows, ("f32",))
    numbers = {"sm_scale": sm_scale, "lse_flags": flags, "sm_limit": sm_limit, "launch_flags": launch_flags}
    if call.s_q and like.device is None:
        _run_on_host(call, kernel, numbers, place)
    elif call.s_q:
        _run_on_device(call, kernel, numbers)
    return out, max_logits, lse
