"""Merging partial results over disjoint shards of the keys: smla_combine, on tensors."""

import contextlib
from typing import Any, Dict, Mapping, Optional, Tuple

from . import _native, _outputs, _tensor
from ._context import Description, Kernel, context
from ._driver import driver
from ._prefill import _BF16, _check, _is_read_only, _place, _say, _settle, resolve_stream
from ._staging import Staging
from ._tensor import Tensor

_OUTPUTS = ("out", "lse")
_FLOAT = _BF16 + ("f32",)


def _dtype(tensor: Tensor) -> int:
    return _native.DTYPE_FLOAT32 if tensor.dtype == "f32" else _native.DTYPE_BF16


class _Call:
    """The tensors of one call, described and checked, all on one device or all on the host."""

    def __init__(self, inputs: Dict[str, Any], stream: Optional[int]) -> None:
        self.stream = stream
        self.tensors: Dict[str, Tensor] = {}
        for name, value in inputs.items():
            if value is not None:
                tensor = _tensor.describe(value, name, stream)
                settled = _settle(value, tensor)
                self.tensors[name] = tensor if settled is value else _tensor.describe(settled, name, stream)
        partial_out = self.tensors["partial_out"]
        _check(
            len(partial_out.shape) == 4 and partial_out.dtype in _FLOAT,
            f"partial_out is {_say(partial_out)}: [parts, s_q, h_q, d_v] bf16 or f32 is needed",
        )
        self.parts, self.s_q, self.h_q, self.d_v = partial_out.shape
        self._expect("partial_out", partial_out.shape, _FLOAT, "[parts, s_q, h_q, d_v]", contiguous=True)
        self._expect("partial_lse", partial_out.shape[:3], ("f32",), "[parts, s_q, h_q]", contiguous=False)
        self._expect("attn_sink", (self.h_q,), ("f32",), "[h_q]", contiguous=True)

    def _expect(
        self, name: str, shape: Tuple[int, ...], dtypes: Tuple[str, ...], words: str, *, contiguous: bool
    ) -> None:
        tensor, like = self.tensors.get(name), self.tensors["partial_out"]
        if tensor is None:
            return
        _check(
            tensor.shape == shape and tensor.dtype in dtypes,
            f"{name} is {_say(tensor)}: {words} {dtypes[0]} is needed, here {list(shape)}",
        )
        _check(
            not contiguous or shape[-1] <= 1 or tensor.numel == 0 or tensor.strides[-1] == 1,
            f"{name}: its last dimension has stride {tensor.strides[-1]}; it must be contiguous",
        )
        _check(tensor.device == like.device, f"{name} is on {_place(tensor)} and partial_out on {_place(like)}")

    def add_output(self, name: str, value: Any, shape: Tuple[int, ...], dtypes: Tuple[str, ...]) -> None:
        if value is None:
            return
        self.tensors[name] = tensor = _tensor.describe(value, name, self.stream)
        self._expect(name, shape, dtypes, "an output of", contiguous=True)
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


def _fill(call: _Call, flags: Mapping[str, int], pointers: Mapping[str, Optional[int]]) -> _native.CombineArgs:
    return _native.CombineArgs(
        partial_dtype=_dtype(call.tensors["partial_out"]),
        out_dtype=_dtype(call.tensors["out"]),
        parts=call.parts,
        s_q=call.s_q,
        partial_out_stride_part=call.stride("partial_out", 0),
        partial_out_stride_token=call.stride("partial_out", 1),
        partial_out_stride_head=call.stride("partial_out", 2),
        partial_lse_stride_part=call.stride("partial_lse", 0),
        partial_lse_stride_token=call.stride("partial_lse", 1),
        partial_lse_stride_head=call.stride("partial_lse", 2),
        out_stride_token=call.stride("out", 0),
        out_stride_head=call.stride("out", 1),
        lse_stride_token=call.stride("lse", 0),
        lse_stride_head=call.stride("lse", 1),
        **flags,
        **pointers,
    )


def _run_on_host(call: _Call, kernel: Kernel, flags: Mapping[str, int], device: int) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(driver().device(device))
        staging = Staging(driver())
        stack.callback(staging.close)
        pointers = {
            name: (staging.output if name in _OUTPUTS else staging.input)(tensor, name)
            for name, tensor in call.tensors.items()
        }
        kernel.combine(_fill(call, flags, pointers), call.stream or 0)
        staging.copy_back(call.stream or 0)


def combine(
    partial_out: Any,
    partial_lse: Any,
    *,
    attn_sink: Any = None,
    out: Any = None,
    lse: Any = True,
    partial_lse_base_2: bool = False,
    lse_base_2: bool = False,
    lse_with_sink: bool = False,
    lse_empty_negative: bool = False,
    after_previous: bool = False,
    stream: Any = None,
    device: int = 0,
) -> Tuple[Any, Any]:
    """Merges what sparse attention gave for disjoint shards of the keys into what it gives for all of them, as context
    parallelism needs: smla_combine (smla.h has the equations).

    partial_out: [parts, s_q, h_q, d_v] bf16 (numpy: ml_dtypes.bfloat16, or its bits as uint16) or float32: each shard's
    out, without the sink. partial_lse: [parts, s_q, h_q] float32, without the sink, natural unless partial_lse_base_2;
    +inf and -inf both say that a part is empty, and what its row of partial_out holds is not read. attn_sink: [h_q]
    float32, natural logarithms, applied here, once; or None.
    out: None allocates [s_q, h_q, d_v] of partial_out's type; or a tensor to write to, bf16 or float32. lse: [s_q, h_q]
    float32; True allocates, None or False leaves it out, or a tensor to write to. It is a natural logarithm without the
    sink, +inf on an empty row, unless lse_base_2, lse_with_sink or lse_empty_negative say otherwise.

    Strides of partial_out and out are multiples of 16 bytes, from a 16-byte boundary; outputs do not overlap the
    partials. Streams, devices, host arrays and after_previous as in prefill(); smla.prepare_combine makes the kernel
    ready ahead.

    Returns (out, lse), None for what was left out. Raises smla's errors; outputs the caller gave are untouched then,
    unless a kernel had begun to run."""
    flags = {
        "lse_flags": lse_base_2 * _native.LSE_BASE_2
        | lse_with_sink * _native.LSE_WITH_SINK
        | lse_empty_negative * _native.LSE_EMPTY_NEGATIVE,
        "partial_lse_flags": partial_lse_base_2 * _native.LSE_BASE_2,
        "launch_flags": after_previous * _native.LAUNCH_AFTER_PREVIOUS,
    }
    number = resolve_stream(stream, partial_out)
    call = _Call({"partial_out": partial_out, "partial_lse": partial_lse, "attn_sink": attn_sink}, number)
    like = call.tensors["partial_out"]
    place = device if like.device is None else like.device
    kernel = context(place).kernel(Description(call.h_q, 0, call.d_v, op=_native.OP_COMBINE))
    rows = (call.s_q, call.h_q)
    dtype = "f32" if like.dtype == "f32" else "bf16"
    out = _outputs.resolve(True if out is None else out, like, rows + (call.d_v,), dtype, "out", number)
    lse = _outputs.resolve(lse, like, rows, "f32", "lse", number)
    call.add_output("out", out, rows + (call.d_v,), _FLOAT)
    call.add_output("lse", lse, rows, ("f32",))
    if call.s_q and like.device is None:
        _run_on_host(call, kernel, flags, place)
    elif call.s_q:
        pointers = {name: tensor.pointer or None for name, tensor in call.tensors.items()}
        kernel.combine(_fill(call, flags, pointers), call.stream or 0)
    return out, lse
