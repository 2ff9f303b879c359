"""How a shape is measured: graphs of launches, replayed in turn. Knows devices and subjects by what they do alone."""

import dataclasses
import functools
import math
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Protocol, Sequence, Tuple

from .shapes import D_V, Shape

LEAST_LAUNCHES, MOST_LAUNCHES, REPLAY_US = 4, 512, 10000  # as smla-bench
ESTIMATE_CALLS, WARM_REPLAYS = 3, 5
HOST_CALLS, HOST_US = 100, 50000


class DeviceFault(Exception):
    """The device does not answer any more: nothing else can be measured in this process."""


class NotItsShape(Exception):
    """A subject's word on a shape that it does not take."""


class Bound(NamedTuple):
    """A subject on a shape. call(i) computes copy i and returns out, [s_q, h_q, d_v]."""

    call: Callable[[int], Any]
    note: str = ""


class Subject(Protocol):
    name: str

    def bind(self, problem: Any) -> Bound:
        """Makes ready for a problem of the device's. Any exception says why it cannot be."""


class Device(Protocol):
    def make(self, shape: Shape) -> Any:
        """Inputs: with `keys` (valid entries of each copy), `copies` and `copy_bytes`."""

    def check(self) -> None:
        """Waits for the device. Raises DeviceFault when it does not work any more."""

    def elapsed_us(self, work: Callable[[], Any]) -> float:
        """Device time of what `work` enqueues."""

    def capture(self, call: Callable[[int], Any], launches: int, copies: int) -> Callable[[], None]:
        """A replay of so many calls, copy after copy."""

    def poison(self, problem: Any) -> None:
        """Fills smla's outputs with NaN."""

    def compare(self, ours: Any, theirs: Any) -> Tuple[float, float]:
        """The largest |ours - theirs|, infinite where one alone is NaN, and the largest |ours|."""


@dataclasses.dataclass
class Running:
    """A subject while it is measured."""

    name: str
    bound: Optional[Bound] = None
    not_run: str = ""
    replay: Optional[Callable[[], None]] = None
    samples: List[float] = dataclasses.field(default_factory=list)
    host: List[float] = dataclasses.field(default_factory=list)
    difference: float = 0.0
    largest: float = 0.0

    @property
    def runs(self) -> bool:
        return not self.not_run


def spread(samples: Sequence[float]) -> Optional[Dict[str, Any]]:
    """As smla-bench's; None of nothing."""
    if not samples:
        return None
    ordered = sorted(samples)
    tenth = (len(ordered) - 1) // 10
    values = {
        "median": ordered[len(ordered) // 2],
        "min": ordered[0],
        "max": ordered[-1],
        "p10": ordered[tenth],
        "p90": ordered[-1 - tenth],
    }
    return {**{key: round(value, 4) for key, value in values.items()}, "count": len(ordered)}


def reason(error: BaseException) -> str:
    """An exception as one line."""
    text = " ".join(str(error).split())
    if isinstance(error, NotItsShape) and text:
        return text
    return f"{type(error).__name__}: {text}"[:400] if text else type(error).__name__


def attempt(device: Device, subject: Running, action: Callable[[], Any]) -> None:
    """Does what may fail; a subject that fails says why and is left out from there. DeviceFault goes through."""
    if not subject.runs:
        return
    try:
        action()
    except DeviceFault as error:
        subject.not_run = reason(error)
        raise
    except Exception as error:
        subject.not_run = reason(error)
        device.check()


def _host_times(device: Device, subject: Running, us: float, copies: int) -> None:
    for i in range(max(1, min(HOST_CALLS, int(HOST_US / us) + 1))):
        begin = time.perf_counter()
        subject.bound.call(i % copies)
        subject.host.append((time.perf_counter() - begin) * 1e6)
        device.check()


def _prepare(device: Device, subject: Running, copies: int, launches: int) -> int:
    """Host times and the graph; returns how many launches it has."""
    us = device.elapsed_us(lambda: [subject.bound.call(0) for _ in range(ESTIMATE_CALLS)]) / ESTIMATE_CALLS
    us = max(us, 0.1)
    if launches == 0:
        launches = max(LEAST_LAUNCHES, min(MOST_LAUNCHES, int(REPLAY_US / us)))
    _host_times(device, subject, us, copies)
    subject.replay = device.capture(subject.bound.call, launches, copies)
    return launches


def _once(device: Device, problem: Any, subjects: Sequence[Running]) -> None:
    """Everybody once, which compiles and tunes; and what rivals give beside what smla gives."""
    device.poison(problem)
    ours = subjects[0].bound.call(0)
    device.check()

    def compare(rival: Running) -> None:
        theirs = rival.bound.call(0)
        device.check()
        rival.difference, rival.largest = device.compare(ours, theirs)

    for rival in subjects[1:]:
        attempt(device, rival, functools.partial(compare, rival))


def _replay(device: Device, subject: Running, launches: int, counts: bool) -> None:
    us = device.elapsed_us(subject.replay) / launches
    if counts:
        subject.samples.append(us)


def _subject_json(subject: Running, shape: Shape, keys: float, ours: Optional[Running]) -> Dict[str, Any]:
    """ours: smla, of a rival."""
    if not subject.runs:
        return {"name": subject.name, "not_run": subject.not_run}
    us = spread(subject.samples)
    median = us["median"]
    result = {
        "name": subject.name,
        "us": us,
        "host_us": spread(subject.host),
        "tflops": round(2 * keys * shape.h_q * (shape.d_qk + D_V) / median / 1e6, 3),
        "tbs": round(keys * 2 * shape.d_qk / median / 1e6, 5),
        "share": {"matrix": None, "gather": None, "both": None},
        "mhz": None,
        "watts": None,
    }
    if ours is not None:
        result.update(
            ratio=round(median / spread(ours.samples)["median"], 5),
            difference=subject.difference if math.isfinite(subject.difference) else None,
            largest=subject.largest,
            known_us=None,
            is_off=False,
        )
    if subject.bound.note:
        result["note"] = subject.bound.note
    return result


def _bind(running: Running, subject: Any, problem: Any) -> None:
    running.bound = subject.bind(problem)


def _measure(device: Device, shape: Shape, problem: Any, subjects: List[Running], runs: int, launches: int) -> int:
    _once(device, problem, subjects)
    launches = _prepare(device, subjects[0], problem.copies, launches)
    for rival in subjects[1:]:
        attempt(device, rival, functools.partial(_prepare, device, rival, problem.copies, launches))
    warm = min(WARM_REPLAYS, runs)
    for run in range(-warm, runs):
        _replay(device, subjects[0], launches, run >= 0)
        for rival in subjects[1:]:
            attempt(device, rival, functools.partial(_replay, device, rival, launches, run >= 0))
    return launches


def measure_shape(
    device: Device, shape: Shape, ours: Subject, rivals: Sequence[Any], runs: int, launches: int = 0
) -> Dict[str, Any]:
    """One result. rivals: subjects, or Running ones that say why they are not there. launches 0: as many as take some
    10 ms. Raises DeviceFault when nothing more can be measured."""
    why = shape.why_not_here()
    if why:
        return {"shape": shape.to_json(), "not_run": why}
    try:
        problem = device.make(shape)
        subjects = [Running(ours.name, ours.bind(problem))]
        for rival in rivals:
            running = Running(rival.name, not_run=getattr(rival, "not_run", ""))
            subjects.append(running)
            attempt(device, running, functools.partial(_bind, running, rival, problem))
        launches = _measure(device, shape, problem, subjects, runs, launches)
    except DeviceFault:
        raise
    except Exception as error:
        device.check()
        return {"shape": shape.to_json(), "not_run": reason(error)}
    keys = sum(problem.keys[i % problem.copies] for i in range(launches)) / launches
    return {
        "shape": shape.to_json(),
        "variant": getattr(ours, "variant", lambda _: "")(shape),
        "keys": keys,
        "token_bytes": 2 * shape.d_qk,
        "launches": launches,
        "copies": problem.copies,
        "copy_bytes": problem.copy_bytes,
        "rotated_bytes": problem.copy_bytes * min(launches, problem.copies),
        "smla": _subject_json(subjects[0], shape, keys, None),
        "rivals": [_subject_json(rival, shape, keys, subjects[0]) for rival in subjects[1:]],
    }
