"""DeepInfer's sparse MLA call sites: one prefill and one decode entry over the backend that is selected.

DEEPINFER_SPARSE_MLA_BACKEND=tilelang|triton|smla chooses; unset, the first of them that imports. A chosen backend that
does not load is an error. The choice is made at the first call, logged once (logger "smla.deepinfer") and kept.
DEEPINFER_SIMULATE_NO_TILELANG=1 makes TileLang unimportable here. DEEPINFER_SPARSE_MLA_DIRECT=1 lets smla's decode
kernel read the caches as they are, without gathering their tokens to bf16 first. The tilelang and triton backends are
the engine's own modules, deepinfer_sparse_mla_tilelang and deepinfer_sparse_mla_triton, with the two functions below;
register_loader() names others.
"""

from typing import Any, Optional, Tuple

from . import _backends
from ._backends import Backend, BackendError, calls, fallbacks, register_loader, reset, select

__all__ = [
    "Backend",
    "BackendError",
    "calls",
    "decode_attn_sparse",
    "fallbacks",
    "prefill_attn_varlen_sparse",
    "register_loader",
    "reset",
    "select",
]


def prefill_attn_varlen_sparse(
    query: Any,
    kv: Any,
    index_topk: Any,
    softmax_scale: float,
    attn_sink: Optional[Any] = None,
    index_length: Optional[Any] = None,
) -> Tuple[Any, Any]:
    """Sparse attention of a packed batch.

    query: [total_q, h, d] bf16, h 1 to 128 and d 512 or 576. kv: [total_k, 1, d] bf16. index_topk: [total_q, topk]
    int32, or [total_q, 1, topk]: rows of kv, offsets of the sequences included; entries outside [0, total_k) are
    ignored, and the lists alone carry causality: there is no bound by row number. topk may exceed total_k.
    index_length: [total_q] int32, entries of each list that count, or None. attn_sink: [h] float32, natural logarithms:
    joins out's softmax, not lse.

    Returns (out [total_q, h, 512] bf16, lse [total_q, h] float32). lse is in base 2 and without the sink, so that an
    engine can apply a sink itself, out * 1 / (1 + 2^(sink * log2(e) - lse)); a query without keys has out 0 and lse
    +inf. torch's current stream; nothing is waited for (host arrays excepted). Raises BackendError, or what the backend
    raises."""
    return _backends.call(
        "prefill", query, kv, index_topk, softmax_scale, attn_sink=attn_sink, index_length=index_length
    )


def decode_attn_sparse(
    query: Any,
    kv_cache: Any,
    indices: Any,
    softmax_scale: float,
    *,
    kv_format: str,
    page_size: Optional[int] = None,
    length: Optional[Any] = None,
    attn_sink: Optional[Any] = None,
    extra_kv_cache: Optional[Any] = None,
    extra_indices: Optional[Any] = None,
    extra_kv_format: Optional[str] = None,
    extra_page_size: Optional[int] = None,
    extra_length: Optional[Any] = None,
    out: Optional[Any] = None,
) -> Tuple[Any, Any]:
    """Sparse attention over one or two quantised caches with one softmax over both. The selected tokens are gathered to
    bf16 by their own indices and go through the prefill kernel with identity indices; with
    DEEPINFER_SPARSE_MLA_DIRECT=1, looked at in each call, smla.decode reads the caches themselves, all tokens' keys
    shared among the multiprocessors: then the caches and the strides between their pages start at multiples of 16
    bytes, and out may have any strides between its first two dimensions.

    query: [batch, s_q, h, d] or [tokens, h, d] bf16. kv_cache: [pages, bytes a page] uint8 with page_size, or [pages,
    page_size, 1, bytes a token] of a one-byte dtype; any stride between pages. kv_format: a name of smla.kv_formats,
    never guessed. indices: [batch, s_q, topk] int32 ([tokens, topk] with a 3-D query or s_q 1): page * page_size +
    offset; others are ignored. length: int32, [batch] one a request or [batch, s_q] one a token, clamped; None: topk.
    The extra_* arguments are the second cache's, its format kv_format unless said otherwise. attn_sink: [h] float32.
    out: None, or the tensor to write to, shaped as the query with d_v 512. h: 1 to 128, without padding; d: what the
    format holds, 576 for v32 and 512 for the others.

    Returns (out, lse [batch, s_q, h] or [tokens, h] float32 in base 2, without sink, +inf where nothing was selected).
    torch or numpy; torch's current stream; caches are only read. UnsupportedError where there is no kernel."""
    return _backends.call(
        "decode",
        query,
        kv_cache,
        indices,
        softmax_scale,
        kv_format=kv_format,
        page_size=page_size,
        length=length,
        attn_sink=attn_sink,
        extra_kv_cache=extra_kv_cache,
        extra_indices=extra_indices,
        extra_kv_format=extra_kv_format,
        extra_page_size=extra_page_size,
        extra_length=extra_length,
        out=out,
    )
