"""FlashMLA's sparse entries on smla, prefill and decode: the same signatures, conventions and strides."""

from typing import Any, Optional, Tuple

from ._decode import decode
from ._kv_format import AnyFormat
from ._prefill import prefill
from .errors import InvalidArgumentError, UnsupportedError

_FORMAT_OF_D_QK = {576: "v32", 512: "v4"}


def flash_mla_sparse_fwd(
    q: Any,
    kv: Any,
    indices: Any,
    sm_scale: float,
    d_v: int = 512,
    attn_sink: Optional[Any] = None,
    topk_length: Optional[Any] = None,
    out: Optional[Any] = None,
) -> Tuple[Any, Any, Any]:
    """Sparse attention prefill.

    q: [s_q, h_q, d_qk] bf16, h_q 1 to 128, d_qk 512 or 576. kv: [s_kv, 1, d_qk] bf16; its first 512 columns are the
    values. indices: [s_q, 1, topk] or [s_q, topk] int32; a number below 0
    or from s_kv on is ignored. attn_sink: [h_q] float32; out is multiplied by exp(lse) / (exp(lse) + exp(attn_sink)),
    lse and max_logits are not touched by it. topk_length: [s_q] int32; entries from there on are ignored, whatever they
    say. out: None, or the tensor to write to, strided as it likes (vLLM's extension).

    Returns (out [s_q, h_q, d_v] bf16, max_logits [s_q, h_q] float32, lse [s_q, h_q] float32): natural logarithms; a
    query without a key has out 0, max_logits -inf and lse +inf. torch's current stream; nothing is waited for.
    UnsupportedError (a NotImplementedError) for a shape without a kernel."""
    if d_v != 512:
        raise UnsupportedError(f"d_v {d_v}: flash_mla_sparse_fwd is for d_v 512")
    return prefill(q, kv, indices, sm_scale, d_v=d_v, topk_length=topk_length, attn_sink=attn_sink, out=out)


class FlashMLASchedMeta:
    """What get_mla_metadata returns. Empty: smla's decode reads the lengths on the device in each call, so one object
    serves calls of any shapes and lengths, and a captured graph replays with new lengths."""


def get_mla_metadata(*args: Any, **kwargs: Any) -> Tuple[FlashMLASchedMeta, None]:
    """(metadata, None), as FlashMLA's. All arguments are ignored."""
    return FlashMLASchedMeta(), None


def _shape(value: Any) -> Tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))


def _check_mode(indices: Any, causal: bool, is_fp8_kvcache: bool, metadata: Any, num_splits: Any, d_v: int) -> None:
    """What FlashMLA asserts of a sparse call; dense ones are not smla's."""
    if indices is None:
        raise UnsupportedError("indices is None: smla has no dense decode; give the slots, indices [b, s_q, topk]")
    if d_v != 512:
        raise UnsupportedError(f"head_dim_v {d_v}: flash_mla_with_kvcache is for head_dim_v 512")
    if causal:
        raise InvalidArgumentError("causal is True: with indices it must be False, the lists carry causality")
    if not is_fp8_kvcache:
        raise InvalidArgumentError(
            "is_fp8_kvcache is False: with indices it must be True; smla.decode reads caches of bf16"
        )
    if not isinstance(metadata, FlashMLASchedMeta):
        raise InvalidArgumentError(
            f"tile_scheduler_metadata is a {type(metadata).__name__}: give what get_mla_metadata() returns first"
        )
    if num_splits is not None:
        raise InvalidArgumentError("num_splits is given: it must be None, as what get_mla_metadata() returns second")


def _check_shapes(q: Any, k_cache: Any, extra_k_cache: Any, extra_indices: Any) -> None:
    if len(_shape(q)) != 4:
        raise InvalidArgumentError(f"q is {list(_shape(q))}: [b, s_q, h_q, d_qk] is needed")
    for name, cache in (("k_cache", k_cache), ("extra_k_cache", extra_k_cache)):
        shape = _shape(cache)
        if cache is not None and (len(shape) != 4 or shape[2] != 1):
            raise InvalidArgumentError(f"{name} is {list(shape)}: [num_blocks, page, 1, bytes a token] is needed")
    if (extra_k_cache is None) != (extra_indices is None):
        raise InvalidArgumentError("extra_k_cache and extra_indices_in_kvcache come together: one of them is None")


def _format_of(q: Any) -> str:
    d_qk = _shape(q)[-1]
    if d_qk not in _FORMAT_OF_D_QK:
        raise UnsupportedError(f"d_qk {d_qk}: 576 is format v32 and 512 is v4; kv_format= names others")
    return _FORMAT_OF_D_QK[d_qk]


def flash_mla_with_kvcache(
    q: Any,
    k_cache: Any,
    block_table: Optional[Any],
    cache_seqlens: Optional[Any],
    head_dim_v: int,
    tile_scheduler_metadata: FlashMLASchedMeta,
    num_splits: None = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    is_fp8_kvcache: bool = False,
    indices: Optional[Any] = None,
    attn_sink: Optional[Any] = None,
    extra_k_cache: Optional[Any] = None,
    extra_indices_in_kvcache: Optional[Any] = None,
    topk_length: Optional[Any] = None,
    extra_topk_length: Optional[Any] = None,
    out: Optional[Any] = None,
    *,
    kv_format: Optional[AnyFormat] = None,
    extra_kv_format: Optional[AnyFormat] = None,
) -> Tuple[Any, Any]:
    """Sparse attention decode over one or two quantised caches.

    q: [b, s_q, h_q, d_qk] bf16, h_q 1 to 128. k_cache: [num_blocks, page, 1, bytes a token] of float8_e4m3fn, int8 or
    uint8, any page size; a page is one run of bytes, the stride between pages any multiple of 16. d_qk says the format:
    576 is v32 (656 bytes), 512 is v4 (584 bytes); kv_format, smla's extension, names another, or is a KvFormat.
    indices: [b, s_q, topk] int32, page number * page + token of the page; -1, and here any number that is no slot, is
    ignored. topk_length: [b] int32, or, smla's extension, [b, s_q]; entries from there on are ignored, whatever they
    say. attn_sink: as in flash_mla_sparse_fwd. extra_k_cache, extra_indices_in_kvcache, extra_topk_length: a second
    cache under the same softmax, with its own page size, topk and lengths, of the same format unless extra_kv_format
    says otherwise. softmax_scale: None is d_qk ** -0.5. tile_scheduler_metadata: get_mla_metadata()[0], new or used.
    block_table and cache_seqlens are ignored; causal is False and is_fp8_kvcache True. out: None, or the tensor to
    write to, strided as it likes (vLLM's extension).

    Returns (out [b, s_q, h_q, 512] bf16, lse [b, h_q, s_q] float32): natural logarithms without the sink, a transposed
    view of [b, s_q, h_q]; a token without a key has out 0 and lse +inf. torch's current stream; nothing is waited for.
    UnsupportedError (a NotImplementedError) for dense decode and a shape without a kernel."""
    _check_mode(indices, causal, is_fp8_kvcache, tile_scheduler_metadata, num_splits, head_dim_v)
    _check_shapes(q, k_cache, extra_k_cache, extra_indices_in_kvcache)
    result, lse = decode(
        q,
        k_cache,
        indices,
        _shape(q)[-1] ** -0.5 if softmax_scale is None else softmax_scale,
        topk_length=topk_length,
        attn_sink=attn_sink,
        kv_format=kv_format or _format_of(q),
        extra_kv=extra_k_cache,
        extra_indices=extra_indices_in_kvcache,
        extra_topk_length=extra_topk_length,
        extra_kv_format=extra_kv_format,
        out=out,
    )
    return result, lse.swapaxes(1, 2)
