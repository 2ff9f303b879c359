"""Kernels made ready beside other work, the end of a warm-up, and what a context did."""

import json
import subprocess
import sys
import threading
import time
from typing import Iterator

import pytest

import smla
from conftest import ROOT
from smla import _context, _native


@pytest.fixture
def fresh(device: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[_context.Context]:
    """A context that has no kernel and no cache, as the device's."""
    monkeypatch.setenv("SMLA_CACHE", "off")
    monkeypatch.setattr(_context, "_contexts", {})
    yield _context.context(device)


def test_a_kernel_in_the_background(fresh: _context.Context) -> None:
    before = time.monotonic()
    preparation = smla.prepare_combine(41, background=True)
    ready = preparation.ready()
    assert not ready and time.monotonic() - before < 1 and not preparation.wait(0.001)
    assert preparation.wait() and preparation.wait(0) and preparation.ready()
    assert smla.stats()["compiles"] == 1
    events = len(smla.events())
    smla.prepare_combine(41)  # as a call would: the kernel is there, and the library is not asked
    again = smla.prepare_combine(41, background=True)
    assert again.ready() and smla.stats()["compiles"] == 1 and len(smla.events()) == events


def test_each_operator(fresh: _context.Context) -> None:
    preparations = [
        smla.prepare_combine(42, background=True),
        smla.prepare(64, 512, background=True),
        smla.prepare_decode(8, 512, kv_format="v4", background=True),
    ]
    assert all(preparation.wait() for preparation in preparations)
    assert smla.decode_workspace_size(8, 512, kv_format="v4", max_b=64, max_s_q=1, max_topk=640) > 0
    assert smla.stats()["compiles"] == 3 and smla.stats()["memory_hits"] == 0


def test_a_failure_is_told_each_time(fresh: _context.Context) -> None:
    preparation = smla.prepare(64, 640, background=True)
    for ask in (preparation.wait, preparation.ready, preparation.wait):
        with pytest.raises(smla.UnsupportedError, match="d_qk 640"):
            ask()


def test_threads_that_wait_share_it(fresh: _context.Context) -> None:
    preparation = smla.prepare_combine(43, background=True)
    results = []
    threads = [threading.Thread(target=lambda: results.append(preparation.wait())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4 and smla.stats()["compiles"] == 1


def test_a_call_beside_it(fresh: _context.Context) -> None:
    """What asks for the kernel meanwhile shares the compilation, and there is one kernel afterwards."""
    preparation = smla.prepare_combine(44, background=True)
    kernel = fresh.kernel(_context.Description(44, 0, op=_native.OP_COMBINE))
    assert preparation.wait() and smla.stats()["compiles"] == 1
    assert fresh.kernel(_context.Description(44, 0, op=_native.OP_COMBINE)) is kernel


def test_one_that_is_dropped(fresh: _context.Context) -> None:
    for h_q in range(45, 49):
        smla.prepare_combine(h_q, background=True)
    assert smla.prepare_combine(49, background=True).wait()


SIGNAL = """
import os, signal, sys, threading
sys.path.insert(0, os.environ["PACKAGE"])
import smla
signal.signal(signal.SIGALRM, lambda *_: print("a signal"))
preparation = smla.prepare_combine(50, background=True)
signal.setitimer(signal.ITIMER_REAL, 0.01)
assert preparation.wait()
sys.stdout.flush()
os._exit(0)  # with a preparation that nobody took
"""


def test_signals_while_it_waits(fresh: _context.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACKAGE", str(ROOT / "tools" / "python"))
    done = subprocess.run([sys.executable, "-c", SIGNAL], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout == "a signal\n"


END = """
import os, sys, time
sys.path.insert(0, os.environ["PACKAGE"])
import smla
preparation = smla.prepare(64, 512, background=True)
while not any(event.kind == "compile-start" for event in smla.events()):
    time.sleep(0.001)
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("seconds", ["0", "0.1", "0.5", "1"])
def test_the_end_of_a_process_waits_for_the_compiler(
    fresh: _context.Context, monkeypatch: pytest.MonkeyPatch, seconds: str
) -> None:
    """The interpreter ends by exit(), which runs NVRTC's destructors."""
    monkeypatch.setenv("PACKAGE", str(ROOT / "tools" / "python"))
    assert subprocess.run([sys.executable, "-c", END, seconds], timeout=120).returncode == 0


def test_sealed(fresh: _context.Context) -> None:
    smla.prepare_combine(51)
    smla.seal()
    smla.prepare_combine(51)
    with pytest.raises(smla.NotCachedError, match="smla-gen --sm"):
        smla.prepare_combine(52)
    preparation = smla.prepare_combine(52, background=True)
    with pytest.raises(smla.NotCachedError, match="is sealed"):
        preparation.wait()
    assert smla.stats()["refused_compiles"] == 2
    assert [event.kind for event in smla.events()].count("compile-refused") == 2


def test_events(fresh: _context.Context) -> None:
    smla.prepare_combine(53)
    events = smla.events()
    assert [event.number for event in events] == list(range(len(events)))
    kinds = [event.kind for event in events]
    assert kinds.index("compile-start") < kinds.index("compile-end") < kinds.index("load")
    end = events[kinds.index("compile-end")]
    assert end.status == 0 and end.duration_ns > 0 and "combine h_q=53" in end.kernel and len(end.kernel_id) == 64
    assert abs(end.time_ns / 1e9 - time.time()) < 600 and end.tier == "none" and "compiled" in end.message
    assert smla.events(since=events[-1].number + 1) == [] and smla.events(since=end.number)[0] == end


def test_stats_json(fresh: _context.Context) -> None:
    smla.prepare_combine(54)
    written = json.loads(smla.stats_json())
    assert written["smla"] == smla.native_version() and written["counters"] == smla.stats()
    assert len(written["events"]) == written["counters"]["events"] == len(smla.events())
