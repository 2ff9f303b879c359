"""The shapes that are measured, as smla-bench prefill has them: the same keys, the same defaults."""

import dataclasses
import json
import pathlib
from typing import Any, Dict, List, Optional, Tuple

D_V = 512
KINDS = ("uniform", "drift", "window")
POSITIVE = ("h_q", "d_qk", "topk", "s_q", "s_kv")


class ShapeError(Exception):
    """A shape, or a file of them, that cannot be meant."""


@dataclasses.dataclass(frozen=True)
class Shape:
    h_q: int = 64
    d_qk: int = 512
    topk: int = 640
    s_q: int = 4096
    s_kv: int = 65536
    kv_format: str = "bf16"
    page: int = 0
    lengths: Optional[Tuple[int, int]] = None  # topk_length of each row is uniform in it
    sink: bool = False
    not_persistent: bool = False
    no_workspace: bool = False  # of caches that are not bf16
    sm_limit: int = 0
    indices: str = "uniform"  # a kind, or a file

    def to_json(self) -> Dict[str, Any]:
        return {**dataclasses.asdict(self), "lengths": list(self.lengths) if self.lengths else None}

    def text(self) -> str:
        words = [f"h {self.h_q} d {self.d_qk} topk {self.topk} s_q {self.s_q} s_kv {self.s_kv}"]
        words += [] if self.kv_format == "bf16" else [self.kv_format]
        words.append(self.indices)
        words += ["lengths {}:{}".format(*self.lengths)] if self.lengths else []
        words += [] if self.sink else ["no sink"]
        return " ".join(words + ["not_persistent"] * self.not_persistent)

    def why_not_here(self) -> str:
        """What smla-bench measures and this does not; "" when it does."""
        if self.kv_format != "bf16" or self.page:
            return "the rivals take rows of bf16: smla-bench prefill measures other caches"
        if self.not_persistent or self.sm_limit:
            return "from Python the plan chooses the kernel: smla-bench prefill measures one that is asked for"
        return ""


def _lengths(value: Any) -> Optional[Tuple[int, int]]:
    """A pair, or "LOW:HIGH"."""
    pair = value.split(":") if isinstance(value, str) else value
    low, high = (int(each) for each in pair)
    if not 0 <= low <= high or high == 0:
        raise ValueError
    return low, high


def _value(key: str, value: Any) -> Any:
    wanted = {field.name: type(field.default) for field in dataclasses.fields(Shape)}[key]
    if key == "lengths":
        return _lengths(value)
    if type(value) is not wanted or (key in POSITIVE and value < 1):
        raise ValueError
    return value


def from_json(item: Any, where: str) -> Shape:
    """One shape. null stands for the default, as in results."""
    if not isinstance(item, dict):
        raise ShapeError(f"{where} is no object")
    names = {field.name for field in dataclasses.fields(Shape)}
    values = {}
    for key, value in item.items():
        if key not in names:
            raise ShapeError(f"{where}: '{key}' is no key of a shape")
        if value is None:
            continue
        try:
            values[key] = _value(key, value)
        except (TypeError, ValueError):
            raise ShapeError(f"{where}: '{key}' cannot be {json.dumps(value)}")
    shape = Shape(**values)
    if shape.lengths and shape.lengths[1] > shape.topk:
        raise ShapeError(f"{where}: lengths up to {shape.lengths[1]} do not fit lists of {shape.topk}")
    return shape


def read(path: pathlib.Path) -> List[Shape]:
    """A JSON array of shapes, such as smla-bench prefill --list-shapes prints."""
    try:
        items = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ShapeError(f"{path}: {error}")
    if not isinstance(items, list) or not items:
        raise ShapeError(f"{path}: it must be an array of one shape or more")
    return [from_json(item, f"{path}: shape {i}") for i, item in enumerate(items)]
