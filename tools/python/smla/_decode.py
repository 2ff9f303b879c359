"""A few query tokens of each of some requests: smla_decode, on tensors."""

import contextlib
import math
from typing import Any, Dict, Mapping, Optional, Tuple

from . import _caches, _native, _outputs, _prefill, _tensor
from ._context import Description, Kernel, context
from ._driver import driver
from ._kv_format import AnyFormat
from ._prefill import _BF16, _check, _not_bf16, _say, _second_cache, resolve_stream
from ._staging import Staging
from ._tensor import ITEM_BYTES, Tensor

_OUTPUTS = ("out", "lse")
_PER_REQUEST = {
    "": _native.DECODE_LENGTHS_PER_REQUEST,
    "extra_": _native.DECODE_EXTRA_LENGTHS_PER_REQUEST,
}


class _Call(_prefill._Call):
    """The tensors of one call: as prefill's, with the requests in front."""

    FREE_LAST = _prefill._Call.FREE_LAST + ("lse",)

    def _check_inputs(self, caches: Dict[str, _caches.Asked]) -> None:
        query = self.tensors["query"]
        _check(
            len(query.shape) == 4 and query.dtype in _BF16,
            f"query is {_say(query)}: [b, s_q, h_q, d_qk] bf16 is needed",
        )
        self.b, self.s_q, self.h_q, self.d_qk = query.shape
        self.flags = 0
        for prefix, asked in caches.items():
            self.rows[prefix] = self._rows(f"{prefix}kv", asked)
            self._check_lists(prefix)
        self._expect("attn_sink", (self.h_q,), ("f32",), "[h_q]")

    def _check_lists(self, prefix: str) -> None:
        indices = self.tensors[f"{prefix}indices"]
        shape = (self.b, self.s_q, indices.shape[-1]) if indices.shape else ()
        self._expect(f"{prefix}indices", shape, ("i32",), "[b, s_q, topk]")
        length = self.tensors.get(f"{prefix}topk_length")
        per_request = length is not None and len(length.shape) == 1
        if per_request:
            self.flags |= _PER_REQUEST[prefix]
        shape = (self.b,) if per_request else (self.b, self.s_q)
        self._expect(f"{prefix}topk_length", shape, ("i32",), "[b] or [b, s_q]")

    def topk_of(self, prefix: str) -> int:
        return self.tensors[f"{prefix}indices"].shape[-1] if prefix in self.rows else 0

    @property
    def sizes(self) -> Tuple[int, int, int, int]:
        """What the workspace depends on: b, s_q, topk, extra_topk."""
        return self.b, self.s_q, self.topk_of(""), self.topk_of("extra_")


def _cache_fields(call: _Call, prefix: str) -> Dict[str, int]:
    """The fields of smla_decode_args that describe a cache, its pointers excepted."""
    rows, indices, length = call.rows[prefix], f"{prefix}indices", f"{prefix}topk_length"
    per_token = length in call.tensors and not call.flags & _PER_REQUEST[prefix]
    return {
        f"{prefix}s_kv": rows.s_kv,
        f"{prefix}topk": call.topk_of(prefix),
        f"{prefix}kv_page_tokens": rows.page_tokens,
        f"{prefix}kv_stride_page": rows.stride_page,
        f"{prefix}kv_stride_token": rows.stride_token,
        f"{prefix}indices_stride_request": call.stride(indices, 0),
        f"{prefix}indices_stride_token": call.stride(indices, 1),
        f"{prefix}topk_length_stride_request": call.stride(length, 0),
        f"{prefix}topk_length_stride": call.stride(length, 1) if per_token else 0,
    }


def _fill(call: _Call, numbers: Mapping[str, Any], pointers: Mapping[str, Optional[int]]) -> _native.DecodeArgs:
    """numbers: the fields that no tensor tells."""
    caches: Dict[str, int] = {}
    for prefix in call.rows:
        caches.update(_cache_fields(call, prefix))
    return _native.DecodeArgs(
        decode_flags=call.flags,
        b=call.b,
        s_q=call.s_q,
        query_stride_request=call.stride("query", 0),
        query_stride_token=call.stride("query", 1),
        query_stride_head=call.stride("query", 2),
        out_stride_request=call.stride("out", 0),
        out_stride_token=call.stride("out", 1),
        out_stride_head=call.stride("out", 2),
        lse_stride_request=call.stride("lse", 0),
        lse_stride_token=call.stride("lse", 1),
        lse_stride_head=call.stride("lse", 2),
        **caches,
        **numbers,
        **pointers,
    )


def _given_workspace(call: _Call, value: Any) -> Tensor:
    tensor = _tensor.describe(value, "workspace", call.stream)
    _check(
        tensor.dtype in ITEM_BYTES and tensor.span_elems == tensor.numel,
        f"workspace is {_say(tensor)} with strides {list(tensor.strides)}: a tensor without gaps is needed",
    )
    call.tensors["workspace"] = tensor
    call._check_place("workspace")
    return call.tensors.pop("workspace")


def _run_on_device(call: _Call, kernel: Kernel, numbers: Mapping[str, Any], workspace: Any) -> None:
    pointers = {name: tensor.pointer or None for name, tensor in call.tensors.items()}
    size = kernel.decode_workspace_size(*call.sizes)
    if workspace is None and size:
        workspace = _outputs.allocate(call.tensors["query"], ((size + 3) // 4,), "f32", "workspace", call.stream)
    if workspace is not None:
        memory = _given_workspace(call, workspace)
        pointers.update(workspace=memory.pointer or None)
        size = memory.numel * ITEM_BYTES[memory.dtype]
    args = _fill(call, numbers, pointers)
    args.workspace_bytes = size
    kernel.decode(args, call.stream or 0)


def _run_on_host(call: _Call, kernel: Kernel, numbers: Mapping[str, Any], device: int) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(driver().device(device))
        staging = Staging(driver())
        stack.callback(staging.close)
        pointers = {
            name: (staging.output if name in _OUTPUTS else staging.input)(tensor, name)
            for name, tensor in call.tensors.items()
        }
        size = kernel.decode_workspace_size(*call.sizes)
        if size:
            pointers.update(workspace=staging.scratch(size))
        args = _fill(call, numbers, pointers)
        args.workspace_bytes = size
        kernel.decode(args, call.stream or 0)
        staging.copy_back(call.stream or 0)


def decode(
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
    lse_base_2: bool = False,
    lse_with_sink: bool = False,
    lse_empty_negative: bool = False,
    batch_invariant: bool = False,
    sm_limit: int = 0,
    after_previous: bool = False,
    workspace: Any = None,
    stream: Any = None,
    device: int = 0,
) -> Tuple[Any, Any]:
    """Sparse attention of s_q query tokens of each of b requests: smla_decode (smla.h has the equations). What
    prefill() computes for b * s_q tokens, with all tokens' keys shared among the device's multiprocessors by their real
    lengths, which the device reads.

    query: [b, s_q, h_q, d_qk] bf16 (numpy: ml_dtypes.bfloat16, or its bits as uint16). kv, kv_format, kv_page_tokens:
    as in prefill(), bf16 or a cache of any format, in pages or not. indices: [b, s_q, topk] int32, page * page_tokens +
    token; entries outside [0, s_kv) are ignored, duplicates count, there is no causal bound. topk_length: int32, [b]
    one a request or [b, s_q] one a token, clamped to [0, topk], or None. attn_sink: [h_q] float32, natural logarithms,
    or None. sm_scale: finite. extra_kv, extra_indices, extra_topk_length, extra_kv_format, extra_kv_page_tokens: a
    second cache under the same softmax, as in prefill().
    out: None allocates [b, s_q, h_q, d_v] bf16 like query; or a tensor to write to. lse: [b, s_q, h_q] float32, of any
    strides; True allocates, None or False leaves it out, or a tensor to write to. It is a natural logarithm without the
    sink, +inf on an empty row, unless lse_base_2, lse_with_sink or lse_empty_negative say otherwise.

    batch_invariant: a token's bits depend on its own inputs and topk alone; else on b, s_q, all lengths and sm_limit
    too. sm_limit: multiprocessors that the main kernel may take; 0 is all. after_previous: as in prefill().
    workspace: of device tensors; None allocates it beside a query of torch, or memory of the device, of any type, from
    a 16-byte boundary, that this call has alone; smla.decode_workspace_size tells how many bytes for the largest call.
    Host arrays do without.

    Strides, streams, devices, captures and host arrays as in prefill(); smla.prepare_decode makes the kernel ready
    ahead. A captured call may be replayed with other contents of all inputs, lengths too.

    Returns (out, lse), None for what was left out. Raises smla's errors; outputs the caller gave are untouched then,
    unless a kernel had begun to run."""
    second = {"extra_kv": extra_kv, "extra_indices": extra_indices, "extra_topk_length": extra_topk_length}
    caches = {"": _caches.Asked(_not_bf16(kv_format), kv_page_tokens)}
    one_cache = extra_kv is extra_indices is extra_topk_length is extra_kv_format is extra_kv_page_tokens is None
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
            op=_native.OP_DECODE,
            batch_invariant=batch_invariant,
            kv_format=caches[""].kv_format,
            extra_kv_format=(caches["extra_"].kv_format or "bf16") if "extra_" in caches else None,
        )
    )
    rows = (call.b, call.s_q, call.h_q)
    out = _outputs.resolve(True if out is None else out, like, rows + (d_v,), "bf16", "out", number)
    lse = _outputs.resolve(lse, like, rows, "f32", "lse", number)
    call.add_output("out", out, rows + (d_v,), _BF16)
    call.add_output("lse", lse, rows, ("f32",))
    numbers = {
        "sm_scale": sm_scale,
        "lse_flags": lse_base_2 * _native.LSE_BASE_2
        | lse_with_sink * _native.LSE_WITH_SINK
        | lse_empty_negative * _native.LSE_EMPTY_NEGATIVE,
        "sm_limit": sm_limit,
        "launch_flags": after_previous * _native.LAUNCH_AFTER_PREVIOUS,
    }
    if call.b and call.s_q and like.device is None:
        _check(workspace is None, "workspace: host arrays do without one")
        _run_on_host(call, kernel, numbers, place)
    elif call.b and call.s_q:
        _run_on_device(call, kernel, numbers, workspace)
    return out, lse
