"""The quantised key/value caches: their layouts as data, writers and readers, for numpy and torch alike, vectorised.

A cache is bytes: [pages, bytes a page] uint8 (or [pages, page_size, 1, bytes a token] as FlashMLA shapes it, of any
one-byte dtype) with a free stride between pages; token `slot` lies in page slot // page_size. `place` says how a page
is laid out: "token": each token's values, tail or scales one after the other; "page": the values and tails of all
tokens, then the scales of all.

Writers: a ue8m0 or float32 scale is 2^ceil(log2(max(amax/448, 1e-4))), a value e4m3(x/scale) to nearest even; of the
fp4 formats the scale is e4m3(clamp(amax/6, 2^-9, 448)), a value e2m1(x/scale) to nearest, ties to even, saturating. A
NaN makes its group's scale NaN. Readers take any scale bits and round value * scale to bf16.

A format is a preset's name or a KvFormat of one's own. smla.prefill reads the same caches as they are.
"""

import dataclasses
from typing import Any, Dict, Optional, Tuple

from . import _tensor
from ._formats_numpy import NumpyOps
from ._formats_torch import TorchOps
from ._kv_format import AnyFormat, KvFormat
from .errors import InvalidArgumentError


FORMATS: Dict[str, KvFormat] = {
    row.name: row
    for row in (
        KvFormat("v32", 512, "e4m3", 128, "f32", "token", tail=64),
        KvFormat("v32_norope", 512, "e4m3", 128, "f32", "token"),
        KvFormat("v4", 448, "e4m3", 64, "ue8m0", "page", scale_pad=1, tail=64),
        KvFormat("v41", 512, "e4m3", 32, "ue8m0", "token"),
        KvFormat("v41_planar", 512, "e4m3", 32, "ue8m0", "page"),
        KvFormat("v41_fp4", 512, "e2m1", 16, "e4m3", "token"),
        KvFormat("v41_fp4_planar", 512, "e2m1", 16, "e4m3", "page"),
        KvFormat("hopper_fp4", 448, "e2m1", 16, "e4m3", "token", scale_pad=4, tail=64),
    )
}


def kv_format(name: AnyFormat) -> KvFormat:
    """The layout of a preset's name, or the layout itself. Never inferred from the bytes a token: two pairs share
    them."""
    if isinstance(name, KvFormat):
        return name
    if name not in FORMATS:
        raise InvalidArgumentError(f"kv format '{name}': one of {', '.join(FORMATS)}")
    return FORMATS[name]


def _ops(value: Any, name: str) -> Any:
    if _tensor.is_torch(value):
        return TorchOps
    if _tensor.is_numpy(value):
        return NumpyOps
    raise InvalidArgumentError(f"{name} is a {type(value).__name__}: caches are read in torch or numpy")


@dataclasses.dataclass
class Cache:
    """A cache, looked at as its parts: each [pages, page_size, bytes] uint8, views of the caller's memory."""

    layout: KvFormat
    ops: Any
    values: Any
    scales: Any
    tail: Any

    @property
    def slots(self) -> int:
        return self.values.shape[0] * self.values.shape[1]


def open_cache(cache: Any, layout: AnyFormat, page_size: Optional[int] = None) -> Cache:
    """Looks at a cache; nothing is copied. page_size: tokens a page; may be left out where the shape tells it."""
    row, ops = kv_format(layout), _ops(cache, "the cache")
    pages = ops.as_bytes(cache)
    if len(pages.shape) > 2:
        if page_size not in (None, pages.shape[1]):
            raise InvalidArgumentError(
                f"page_size {page_size}: the cache's shape {list(pages.shape)} says {pages.shape[1]}"
            )
        page_size = pages.shape[1]
        if pages.shape[-1] != row.token_bytes or (len(pages.shape) == 4 and pages.shape[2] != 1):
            raise InvalidArgumentError(
                f"the cache is {list(pages.shape)}: {row.name} is [pages, page_size, 1, {row.token_bytes}]"
            )
        pages = ops.flat_pages(pages, row.page_bytes(page_size))
    if len(pages.shape) != 2 or page_size is None or page_size < 1:
        raise InvalidArgumentError(
            f"the cache is {list(pages.shape)} with page_size {page_size}: [pages, bytes a page] and "
            "the tokens of a page are needed"
        )
    if pages.shape[1] < row.page_bytes(page_size):
        raise InvalidArgumentError(
            f"a page has {pages.shape[1]} bytes: {page_size} tokens of {row.name} take {row.page_bytes(page_size)}"
        )
    values, scales, tail = _parts(ops, pages, row, page_size)
    return Cache(row, ops, values, scales, tail)


def _parts(ops: Any, pages: Any, row: KvFormat, page_size: int) -> Tuple[Any, Any, Any]:
    def part(start: int, step: int, size: int) -> Any:
        return ops.rows_of_pages(pages, start, page_size, step, size)

    if row.place == "token":
        scales, step = row.value_bytes, row.token_bytes
        tail = scales + row.scale_bytes + row.scale_pad
        return part(0, step, row.value_bytes), part(scales, step, row.scale_bytes), part(tail, step, 2 * row.tail)
    step = row.value_bytes + 2 * row.tail
    scale_step = row.scale_bytes + row.scale_pad
    return (
        part(0, step, row.value_bytes),
        part(page_size * step, scale_step, row.scale_bytes),
        part(row.value_bytes, step, 2 * row.tail),
    )


def gather(cache: Any, slots: Any, layout: AnyFormat, page_size: Optional[int] = None) -> Any:
    """The tokens at `slots`, dequantised: [*slots.shape, d_qk] bf16 (numpy: its bits as uint16).

    slots: integers of the cache's library, 0 <= slot < pages * page_size; any other is read as slot 0 (zeros in a cache
    without pages): mark those as invalid for the kernel."""
    view = open_cache(cache, layout, page_size)
    ops, row = view.ops, view.layout
    if view.slots == 0:
        return ops.zeros_bf16(slots, tuple(slots.shape) + (row.d_qk,))
    safe = ops.where((slots >= 0) & (slots < view.slots), slots, 0)
    page, token = safe // view.values.shape[1], safe % view.values.shape[1]
    if row.values == "bf16":
        parts = (view.values, view.tail) if row.tail else (view.values,)
        return ops.concat([ops.bf16_of_bytes(part[page, token]) for part in parts])
    values = ops.decode_values(view.values[page, token], row.values)
    scales = ops.decode_scales(view.scales[page, token], row.scale)
    shape = tuple(slots.shape)
    body = ops.to_bf16((values.reshape(shape + (row.groups, row.group)) * scales[..., None]).reshape(shape + (-1,)))
    return ops.concat([body, ops.bf16_of_bytes(view.tail[page, token])]) if row.tail else body


def write(cache: Any, slots: Any, rows: Any, layout: AnyFormat, page_size: Optional[int] = None) -> None:
    """Quantises rows [n, d_qk] (bf16, numpy's bits as uint16, or float32) into a cache's slots [n]. In place: nothing
    but those tokens' bytes is written."""
    view = open_cache(cache, layout, page_size)
    ops, row = view.ops, view.layout
    if tuple(rows.shape) != tuple(slots.shape) + (row.d_qk,):
        raise InvalidArgumentError(
            f"rows are {list(rows.shape)} for {list(slots.shape)} slots: {row.name} has d {row.d_qk}"
        )
    page, token = slots // view.values.shape[1], slots % view.values.shape[1]
    if row.values == "bf16":
        view.values[page, token] = ops.bytes_of_bf16(rows[..., : row.elements])
    else:
        groups = ops.to_f32(rows[..., : row.elements]).reshape(tuple(slots.shape) + (row.groups, row.group))
        bits, scale = ops.encode_scales(groups, row.scale)
        values = ops.encode_values(groups / scale[..., None], row.values)
        view.values[page, token] = values.reshape(tuple(slots.shape) + (row.value_bytes,))
        view.scales[page, token] = bits
    if row.tail:
        view.tail[page, token] = ops.bytes_of_bf16(rows[..., row.elements :])


def empty_cache(like: Any, pages: int, page_size: int, layout: AnyFormat, page_align: int = 1) -> Any:
    """A zeroed cache [pages, bytes a page] uint8 beside `like`; pages padded to a multiple of page_align bytes."""
    size = kv_format(layout).page_bytes(page_size)
    return _ops(like, "like").zeros_u8(like, (pages, -(-size // page_align) * page_align))
