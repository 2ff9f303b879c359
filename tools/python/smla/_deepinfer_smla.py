"""The smla backend of smla.deepinfer: its two entry points on smla's kernels."""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _context, _tensor, kv_formats
from ._decode import decode
from ._kv_format import AnyFormat
from ._prefill import prefill
from .errors import InvalidArgumentError, UnsupportedError


DIRECT = "DEEPINFER_SPARSE_MLA_DIRECT"


def prefill_attn_varlen_sparse(
    query: Any,
    kv: Any,
    index_topk: Any,
    softmax_scale: float,
    attn_sink: Optional[Any] = None,
    index_length: Optional[Any] = None,
) -> Tuple[Any, Any]:
    """See smla.deepinfer.prefill_attn_varlen_sparse."""
    out, _, lse = prefill(
        query,
        kv,
        index_topk,
        softmax_scale,
        topk_length=index_length,
        attn_sink=attn_sink,
        max_logits=None,
        lse_base_2=True,
    )
    return out, lse


def _list(indices: Any, batch: int, s_q: int, name: str) -> Any:
    """The lists of one cache as [batch, s_q, topk]."""
    shape = tuple(indices.shape)
    if len(shape) == 4 and shape[2] == 1:
        indices = indices.reshape(shape[:2] + shape[3:])
    elif len(shape) == 2 and s_q == 1:
        indices = indices[:, None, :]
    if len(indices.shape) != 3 or tuple(indices.shape[:2]) != (batch, s_q):
        raise InvalidArgumentError(
            f"{name} is {list(shape)}: [{batch}, {s_q}, topk] is needed, flat slots of the cache"
        )
    described = _tensor.describe(indices, name)
    if described.dtype != "i32":
        raise InvalidArgumentError(f"{name} is {described.dtype}: int32 is needed")
    return indices


def _lists(indices: Any, length: Optional[Any], batch: int, s_q: int, name: str) -> Tuple[Any, Any]:
    """(indices [batch, s_q, topk], which positions count [batch, s_q, topk]) of one cache."""
    indices = _list(indices, batch, s_q, name)
    counted = indices >= 0
    if length is not None:
        counted = counted & (_positions(indices) < _per_token(length, batch, s_q, name.replace("indices", "length")))
    return indices, counted


def _positions(indices: Any) -> Any:
    if _tensor.is_torch(indices):
        return _tensor.torch_module().arange(indices.shape[-1], device=indices.device)
    return _tensor.numpy_module().arange(indices.shape[-1])


def _per_token(length: Any, batch: int, s_q: int, name: str) -> Any:
    """Lengths as [batch, s_q or 1, 1], from one a request [batch] or one a token [batch, s_q]."""
    described = _tensor.describe(length, name)
    if described.dtype != "i32" or described.shape not in ((batch,), (batch, s_q)):
        raise InvalidArgumentError(
            f"{name} is {list(described.shape)} {described.dtype}: int32 is needed, [{batch}] one a "
            f"request or [{batch}, {s_q}] one a token"
        )
    return length.reshape((batch, -1, 1))


def _gather(cache: Any, indices: Any, counted: Any, layout: AnyFormat, page_size: Optional[int]) -> Tuple[Any, Any]:
    """(rows [batch * s_q, topk, d_qk] bf16, which of them count [batch * s_q, topk])."""
    view = kv_formats.open_cache(cache, layout, page_size)
    rows = kv_formats.gather(cache, indices, layout, page_size)
    tokens = indices.shape[0] * indices.shape[1]
    counted = counted & (indices < view.slots)
    return rows.reshape((tokens, indices.shape[2], view.layout.d_qk)), counted.reshape((tokens, indices.shape[2]))


def _join(parts: list) -> Any:
    if len(parts) == 1:
        return parts[0]
    if _tensor.is_torch(parts[0]):
        return _tensor.torch_module().cat(parts, dim=1)
    return _tensor.numpy_module().concatenate(parts, axis=1)


def _identity(counted: Any) -> Any:
    """[tokens, k] int32: the row's own number in the gathered rows where it counts, else -1."""
    if _tensor.is_torch(counted):
        torch = _tensor.torch_module()
        numbers = torch.arange(counted.numel(), dtype=torch.int32, device=counted.device).reshape(counted.shape)
        return torch.where(counted, numbers, -1)
    np = _tensor.numpy_module()
    return np.where(counted, np.arange(counted.size, dtype=np.int32).reshape(counted.shape), np.int32(-1))


class _Scope(NamedTuple):
    """One cache of a decode call, as the caller gave it. prefix: of its arguments' names."""

    prefix: str
    cache: Any
    indices: Any
    length: Optional[Any]
    layout: AnyFormat
    page_size: Optional[int]


def _staged(scopes: List[_Scope], batch: int, s_q: int) -> Dict[str, Any]:
    """smla.prefill's keys and lists: the selected tokens as bf16, and their own numbers."""
    parts = [
        _gather(
            scope.cache,
            *_lists(scope.indices, scope.length, batch, s_q, f"{scope.prefix}indices"),
            scope.layout,
            scope.page_size,
        )
        for scope in scopes
    ]
    rows, counted = (_join([part[i] for part in parts]) for i in range(2))
    return {"kv": rows.reshape((-1, rows.shape[-1])), "indices": _identity(counted)}


def _direct(scopes: List[_Scope], batch: int, s_q: int) -> Dict[str, Any]:
    """smla.decode's keys, lists and lengths: the caches as they are, nothing of them is copied."""
    keys: Dict[str, Any] = {}
    for scope in scopes:
        prefix = scope.prefix
        if scope.length is not None:
            _per_token(scope.length, batch, s_q, f"{prefix}length")
        keys[f"{prefix}kv"] = scope.cache
        keys[f"{prefix}indices"] = _list(scope.indices, batch, s_q, f"{prefix}indices")
        keys[f"{prefix}topk_length"] = scope.length
        keys[f"{prefix}kv_format"] = scope.layout
        keys[f"{prefix}kv_page_tokens"] = scope.page_size
    return keys


def _check_shape(query: Any, layouts: Tuple[AnyFormat, ...], direct: bool) -> None:
    """Refuses what has no kernel before anything is gathered, in smla's own words."""
    described = _tensor.describe(query, "query")
    if described.dtype not in ("bf16", "u16"):
        raise InvalidArgumentError(f"query is {described.dtype}: bf16 is needed")
    h_q, d_qk = described.shape[-2:]
    for layout in layouts:
        if kv_formats.kv_format(layout).d_qk != d_qk:
            row = kv_formats.kv_format(layout)
            raise InvalidArgumentError(f"query has d_qk {d_qk} and kv format {row.name} has {row.d_qk}")
    if direct:
        return  # nothing is gathered: decode refuses
    support = _context.context(described.device or 0).query_support(_context.Description(h_q, d_qk))
    if not support.supported:
        raise UnsupportedError(support.reason)


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
    """See smla.deepinfer.decode_attn_sparse."""
    flat = len(query.shape) == 3
    batched = query[:, None] if flat else query
    if len(batched.shape) != 4:
        raise InvalidArgumentError(f"query is {list(query.shape)}: [batch, s_q, h_q, d_qk] or [tokens, h_q, d_qk]")
    if (extra_kv_cache is None) != (extra_indices is None):
        raise InvalidArgumentError("extra_kv_cache and extra_indices come together")
    scopes = [_Scope("", kv_cache, indices, length, kv_format, page_size)]
    if extra_kv_cache is not None:
        extra_format = extra_kv_format or kv_format
        scopes.append(_Scope("extra_", extra_kv_cache, extra_indices, extra_length, extra_format, extra_page_size))
    direct = os.environ.get(DIRECT) == "1"
    _check_shape(batched, tuple(scope.layout for scope in scopes), direct)
    if out is not None:
        _check_out(out, tuple(query.shape[:-1]))
    return (_run_direct if direct else _run_staged)(batched, scopes, softmax_scale, attn_sink, out, flat)


def _run_direct(
    query: Any, scopes: List[_Scope], scale: float, sink: Optional[Any], out: Optional[Any], flat: bool
) -> Tuple[Any, Any]:
    """By the decode kernel. query: [batch, s_q, h_q, d_qk]; out and the results are without s_q where flat."""
    keys = _direct(scopes, *query.shape[:2])
    target = out[:, None] if flat and out is not None else out
    result, lse = decode(query, sm_scale=scale, **keys, attn_sink=sink, out=target, lse_base_2=True)
    if out is None:
        out = result[:, 0] if flat else result
    return out, lse[:, 0] if flat else lse


def _run_staged(
    query: Any, scopes: List[_Scope], scale: float, sink: Optional[Any], out: Optional[Any], flat: bool
) -> Tuple[Any, Any]:
    """By the prefill kernel, over what is gathered."""
    batch, s_q, h_q, d_qk = query.shape
    tokens = batch * s_q
    keys = _staged(scopes, batch, s_q)
    result, _, lse = prefill(
        query.reshape((tokens, h_q, d_qk)),
        sm_scale=scale,
        **keys,
        attn_sink=sink,
        out=out if out is None or flat else _merge_tokens(out, tokens),
        max_logits=None,
        lse_base_2=True,
    )
    if flat:
        return result, lse
    return (out if out is not None else result.reshape((batch, s_q, h_q, -1))), lse.reshape((batch, s_q, h_q))


def _check_out(out: Any, leading: Tuple[int, ...]) -> None:
    if tuple(out.shape[:-1]) != leading:
        raise InvalidArgumentError(f"out is {list(out.shape)}: {list(leading)} and d_v are needed")


def _merge_tokens(out: Any, tokens: int) -> Any:
    """[batch, s_q, h, d] as a view [tokens, h, d]; refused where the strides do not allow one."""
    shape = (tokens,) + tuple(out.shape[2:])
    if _tensor.is_torch(out):
        try:
            return out.view(shape)
        except RuntimeError:
            pass
    else:
        merged = out.reshape(shape)
        if merged.size == 0 or _tensor.numpy_module().shares_memory(merged, out):
            return merged
    raise InvalidArgumentError(
        "out: its first two dimensions cannot be seen as one (batch stride must be s_q times the token stride)"
    )
