"""The plain case of a call without its general machinery: torch's tensors on one card, on torch's current stream.

Only what is surely right is taken; whatever else comes is left to the general path, which serves it or says what is
wrong. Nothing is described or copied here, so that the host's time stays at some µs.
"""

import ctypes
import os
from typing import Any, Callable, Dict, Optional, Tuple

from . import _native, _tensor
from ._context import Description, Kernel, context

_kernels: Dict[Tuple[Any, ...], Kernel] = {}  # by device and description; contexts keep them alive
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_kernels.clear)
_ARGS_BYTES = ctypes.sizeof(_native.PrefillArgs)
_new_args = _native.PrefillArgs.__new__  # zeroed; __init__ by keywords takes longer than all the rest
_raw_stream: Optional[Callable[[int], int]] = None


def _current_stream(torch: Any, device: int) -> int:
    """torch's current stream of a device, by the function that compiled Triton kernels ask, where torch has it: it
    makes no stream object."""
    global _raw_stream
    if _raw_stream is None:
        _raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
            lambda index: torch.cuda.current_stream(index).cuda_stream
        )
    return _raw_stream(device)


def _rows(torch: Any, value: Any, dtype: Any, device: int) -> Optional[Tuple[int, int, int]]:
    """(rows, width, stride of a row or 0 for one row) of [n, m] or [n, 1, m] on the device, rows contiguous."""
    if not (
        isinstance(value, torch.Tensor) and value.is_cuda and value.dtype is dtype and value.get_device() == device
    ):
        return None
    shape, strides = value.shape, value.stride()
    if len(shape) == 3:
        rows, one, width = shape
        if one != 1:
            return None
    elif len(shape) == 2:
        rows, width = shape
    else:
        return None
    step = strides[0] if rows > 1 else 0
    if rows == 0 or width == 0 or strides[-1] != 1 or (step == 0 and rows > 1):
        return None
    return rows, width, step


def _vector(torch: Any, value: Any, dtype: Any, device: int, size: int) -> Optional[int]:
    """The stride of [size] on the device, 0 for one entry; None when it is anything else."""
    if not (
        isinstance(value, torch.Tensor) and value.is_cuda and value.dtype is dtype and value.get_device() == device
    ):
        return None
    shape = value.shape
    if len(shape) != 1 or shape[0] != size:
        return None
    return 0 if size == 1 else value.stride()[0] or None


def _heads(torch: Any, value: Any, device: int) -> Optional[Tuple[int, int, int, int, int]]:
    """(tokens, heads, width, strides of a token and a head, 0 for one) of [n, h, m] bf16 on the device."""
    if not (isinstance(value, torch.Tensor) and value.is_cuda and value.dtype is torch.bfloat16):
        return None
    shape = value.shape
    if len(shape) != 3 or value.get_device() != device:
        return None
    tokens, heads, width = shape
    token, head, last = value.stride()
    if last != 1 or not (tokens and heads and width) or (tokens > 1 and token == 0) or (heads > 1 and head == 0):
        return None
    return tokens, heads, width, token if tokens > 1 else 0, head if heads > 1 else 0


def _outputs(
    torch: Any, args: _native.PrefillArgs, like: Any, d_v: int, out: Any, lse: Any, max_logits: Any
) -> Optional[Callable[[], Tuple[Any, Any, Any]]]:
    """Fills in the outputs that the caller gave and returns what makes the others, or None."""
    device, s_q, h_q = like.get_device(), *like.shape[:2]
    if out is not None:
        layout = _heads(torch, out, device)
        if layout is None or layout[:3] != (s_q, h_q, d_v):
            return None
        args.out, args.out_stride_token, args.out_stride_head = out.data_ptr(), layout[3], layout[4]
    for wanted in (lse, max_logits):
        if wanted is not True and wanted is not None and wanted is not False:
            return None

    def make() -> Tuple[Any, Any, Any]:
        place, rows, f32 = like.device, (s_q, h_q), torch.float32
        made = out
        if made is None:
            made = torch.empty((s_q, h_q, d_v), dtype=torch.bfloat16, device=place)
            args.out = made.data_ptr()
        logarithms = largest = None
        if lse:
            logarithms = torch.empty(rows, dtype=f32, device=place)
            args.lse = logarithms.data_ptr()
        if max_logits:
            largest = torch.empty(rows, dtype=f32, device=place)
            args.max_logits = largest.data_ptr()
        return made, largest, logarithms

    return make


def _options(
    torch: Any, args: _native.PrefillArgs, device: int, s_q: int, h_q: int, topk_length: Any, attn_sink: Any
) -> bool:
    """Fills in the inputs that may be left out; False where one is not plain."""
    if topk_length is not None:
        step = _vector(torch, topk_length, torch.int32, device, s_q)
        if step is None:
            return False
        args.topk_length, args.topk_length_stride = topk_length.data_ptr(), step
    if attn_sink is not None:
        step = _vector(torch, attn_sink, torch.float32, device, h_q)
        if step is None or step > 1:
            return False
        args.attn_sink = attn_sink.data_ptr()
    return True


def _kernel(device: int, h_q: int, d_qk: int, d_v: int, batch_invariant: bool, not_persistent: bool) -> Kernel:
    key = (device, h_q, d_qk, d_v, batch_invariant, not_persistent)
    kernel = _kernels.get(key)
    if kernel is None:
        description = Description(h_q, d_qk, d_v, batch_invariant=batch_invariant, not_persistent=not_persistent)
        kernel = context(device).kernel(description)
        _kernels[key] = kernel
    return kernel


def prefill(
    query: Any,
    kv: Any,
    indices: Any,
    sm_scale: float,
    d_v: int,
    topk_length: Any,
    attn_sink: Any,
    out: Any,
    lse: Any,
    max_logits: Any,
    lse_flags: int,
    batch_invariant: bool,
    not_persistent: bool,
    sm_limit: int,
    launch_flags: int,
) -> Optional[Tuple[Any, Any, Any]]:
    """smla.prefill's result, or None, with nothing done, where this is not the plain case."""
    torch = _tensor.torch_module()
    if torch is None or not _tensor.is_torch(query) or not query.is_cuda:
        return None
    if type(sm_scale) is not float or sm_scale - sm_scale != 0.0:  # not finite
        return None
    device = query.get_device()
    queries = _heads(torch, query, device)
    keys = _rows(torch, kv, torch.bfloat16, device)
    lists = _rows(torch, indices, torch.int32, device)
    if queries is None or keys is None or lists is None:
        return None
    s_q, h_q, d_qk, token, head = queries
    if (keys[1], lists[0]) != (d_qk, s_q):
        return None
    args = _new_args(_native.PrefillArgs)
    if not _options(torch, args, device, s_q, h_q, topk_length, attn_sink):
        return None
    make = _outputs(torch, args, query, d_v, out, lse, max_logits)
    if make is None:
        return None
    kernel = _kernel(device, h_q, d_qk, d_v, batch_invariant, not_persistent)
    if kernel.workspace_size(s_q, lists[1], keys[0]):
        return None
    args.struct_size, args.lse_flags, args.sm_scale = _ARGS_BYTES, lse_flags, sm_scale
    args.s_q, args.s_kv, args.topk = s_q, keys[0], lists[1]
    args.query, args.query_stride_token, args.query_stride_head = query.data_ptr(), token, head
    args.kv, args.kv_stride_token = kv.data_ptr(), keys[2]
    args.indices, args.indices_stride_token = indices.data_ptr(), lists[2]
    args.sm_limit, args.launch_flags = sm_limit, launch_flags
    result = make()
    kernel.prefill(args, _current_stream(torch, device))
    return result
