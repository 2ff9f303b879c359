"""Where a cache's rows lie: the shapes that engines give their caches, as fields of smla_prefill_args."""

from typing import NamedTuple, Optional, Tuple

from ._kv_format import AnyFormat, KvFormat
from ._tensor import Tensor
from .errors import InvalidArgumentError

BYTES = ("u8", "i8", "f8_e4m3")
BF16 = ("bf16", "u16")  # numpy has no bf16 of its own: its bits come as uint16
_MOST_PAGE_TOKENS = 2**31 - 1


class Asked(NamedTuple):
    """What the caller says of a cache. kv_format None: bf16. page_tokens None: no pages, or the shape tells."""

    kv_format: Optional[AnyFormat]
    page_tokens: Optional[int]


class Rows(NamedTuple):
    """A cache of a call. Strides in elements; 0: contiguous. page_tokens 0: one run of rows."""

    s_kv: int
    stride_token: int = 0
    page_tokens: int = 0
    stride_page: int = 0


class _Pages(NamedTuple):
    """A cache as [pages, tokens, width], whatever its shape."""

    pages: int
    tokens: int
    stride_page: int
    stride_token: int


def rows(tensor: Tensor, row: KvFormat, page_tokens: Optional[int], name: str) -> Rows:
    """The rows of a cache of a format. name: "kv" or "extra_kv". InvalidArgumentError for a shape, type or strides that
    the format does not have. Pages one after the other, of a format placed by token, are one run of rows."""
    if page_tokens is not None and not 1 <= page_tokens <= _MOST_PAGE_TOKENS:
        raise InvalidArgumentError(f"{name}_page_tokens is {page_tokens}: 1 to {_MOST_PAGE_TOKENS}")
    dtypes = BF16 if row.values == "bf16" else BYTES
    width = row.token_bytes // (2 if dtypes is BF16 else 1)
    if tensor.dtype not in dtypes:
        raise _refuse(tensor, row, width, name)
    seen = _as_pages(tensor, width, row, page_tokens, name)
    if tensor.numel and tensor.strides[-1] != 1:
        raise InvalidArgumentError(f"{name}: its last dimension has stride {tensor.strides[-1]}; it must be contiguous")
    if row.place == "page":
        if seen.tokens > 1 and tensor.numel and seen.stride_token != width:
            raise InvalidArgumentError(
                f"{name}: its tokens have stride {seen.stride_token}, and a page of {row.name} is one run of bytes: "
                f"{width}, with a free stride between pages"
            )
        return Rows(seen.pages * seen.tokens, 0, seen.tokens, seen.stride_page if seen.pages > 1 else 0)
    return _by_token(seen)


def _by_token(seen: _Pages) -> Rows:
    s_kv = seen.pages * seen.tokens
    if s_kv <= 1:
        return Rows(s_kv)
    if seen.tokens == 1:
        return Rows(s_kv, seen.stride_page)
    if seen.pages == 1 or seen.stride_page == seen.tokens * seen.stride_token:
        return Rows(s_kv, seen.stride_token)
    return Rows(s_kv, seen.stride_token, seen.tokens, seen.stride_page)


def _as_pages(tensor: Tensor, width: int, row: KvFormat, page_tokens: Optional[int], name: str) -> _Pages:
    shape, strides = tensor.shape, tensor.strides
    if len(shape) == 2 and page_tokens is not None:
        if shape[1] < page_tokens * width:
            raise _refuse(tensor, row, width, name, f" a page of {page_tokens} tokens, {page_tokens * width};")
        return _Pages(shape[0], page_tokens, strides[0], width)
    if len(shape) == 2 and shape[1] == width:
        if row.place == "page":
            raise _refuse(tensor, row, width, name, " its scales stand behind the values of a page;")
        return _Pages(shape[0], 1, strides[0], width)
    if len(shape) not in (3, 4) or shape[-1] != width or (len(shape) == 4 and shape[2] != 1):
        raise _refuse(tensor, row, width, name)
    if page_tokens not in (None, shape[1]):
        raise InvalidArgumentError(
            f"{name}_page_tokens is {page_tokens}: {name}'s shape {list(shape)} says {shape[1]} tokens a page"
        )
    return _Pages(shape[0], shape[1], strides[0], strides[1])


def _refuse(tensor: Tensor, row: KvFormat, width: int, name: str, why: str = "") -> InvalidArgumentError:
    unit, dtype = ("elements", "bf16") if row.values == "bf16" else ("bytes", "u8")
    shapes: Tuple[str, ...] = (
        f"[pages, page_tokens, 1, {width}]",
        f"[pages, {unit} a page] with {name}_page_tokens",
    )
    if row.place == "token":
        shapes += (f"[s_kv, {width}]",)
    return InvalidArgumentError(
        f"{name} is {list(tensor.shape)} {tensor.dtype}: {row.name} has {width} {unit} a token;{why} "
        f"{', '.join(shapes[:-1])} or {shapes[-1]} {dtype} is needed"
    )
