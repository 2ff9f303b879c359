"""A cache's layout as data, and as smla_kv_layout."""

import dataclasses
import functools
from typing import Union

from . import _native, errors
from ._library import library

_VALUES = {"bf16": _native.VALUE_BF16, "e4m3": _native.VALUE_E4M3, "e2m1": _native.VALUE_E2M1}
_SCALES = {
    "none": _native.SCALE_NONE,
    "f32": _native.SCALE_FP32,
    "ue8m0": _native.SCALE_UE8M0,
    "e4m3": _native.SCALE_E4M3,
}
_PLACES = {"token": _native.PLACE_TOKEN, "page": _native.PLACE_PAGE}
_VALUE_BITS = {"bf16": 16, "e4m3": 8, "e2m1": 4}


@dataclasses.dataclass(frozen=True)
class KvFormat:
    """A layout. values: "e4m3", "e2m1" (two a byte, the even element in the low nibble) or "bf16". group: elements a
    scale; 0 of bf16. scale: "f32", "ue8m0" or "e4m3"; "none" of bf16. place: "token" or "page". scale_pad: unused bytes
    behind a token's scales. tail: unquantised bf16 elements. InvalidArgumentError for a word that is none."""

    name: str
    elements: int
    values: str
    group: int
    scale: str
    place: str
    scale_pad: int = 0
    tail: int = 0

    def __post_init__(self) -> None:
        for field, words in (("values", _VALUES), ("scale", _SCALES), ("place", _PLACES)):
            if getattr(self, field) not in words:
                raise errors.InvalidArgumentError(
                    f"kv format {self.name}: {field} '{getattr(self, field)}' is none of {', '.join(words)}"
                )

    @property
    def d_qk(self) -> int:
        return self.elements + self.tail

    @property
    def groups(self) -> int:
        return self.elements // self.group if self.group else 0

    @property
    def value_bytes(self) -> int:
        return self.elements * _VALUE_BITS[self.values] // 8

    @property
    def scale_bytes(self) -> int:
        return self.groups * (4 if self.scale == "f32" else 1)

    @property
    def token_bytes(self) -> int:
        return self.value_bytes + self.scale_bytes + self.scale_pad + 2 * self.tail

    def page_bytes(self, page_size: int) -> int:
        """Bytes of a page without padding behind it."""
        return page_size * self.token_bytes

    def to_native(self) -> _native.KvLayout:
        """smla_kv_layout, whose numbers the library checks."""
        return _native.KvLayout(
            value_type=_VALUES[self.values],
            value_elems=self.elements,
            scale_type=_SCALES[self.scale],
            scale_group=self.group,
            scale_bytes=self.scale_bytes + self.scale_pad,
            tail_elems=self.tail,
            place=_PLACES[self.place],
        )


AnyFormat = Union[str, KvFormat]


def _word(codes: dict, code: int) -> str:
    return next(word for word, number in codes.items() if number == code)


@functools.lru_cache(None)
def kv_layout(name: str, d_qk: int) -> KvFormat:
    """The layout of a preset, as libsmla.so has it: to look at, or to start from (dataclasses.replace). d_qk: of the
    keys; a preset exists for some. InvalidArgumentError: no such preset; UnsupportedError: not for that d_qk."""
    out = _native.KvLayout()
    errors.check(library(), library().smla_kv_layout_preset(name.encode(), d_qk, out))
    row = KvFormat(
        name,
        out.value_elems,
        _word(_VALUES, out.value_type),
        out.scale_group,
        _word(_SCALES, out.scale_type),
        _word(_PLACES, out.place),
        tail=out.tail_elems,
    )
    return dataclasses.replace(row, scale_pad=out.scale_bytes - row.scale_bytes)


def resolve(kv_format: AnyFormat, d_qk: int) -> KvFormat:
    """The layout that a name stands for, or the layout itself."""
    return kv_format if isinstance(kv_format, KvFormat) else kv_layout(kv_format, d_qk)
