"""The structs and constants by hand in smla._native are those of smla.h: a small C program says."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import threading
import time

import pytest

from smla import _context, _native

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"


def _program() -> str:
    lines = ["#include <smla/smla.h>", "#include <stdio.h>", "int main(void)", "{"]
    for name, kind in _native.STRUCTS.items():
        lines.append(f'    printf("{name} %zu\\n", sizeof({name}));')
        for field, _ in kind._fields_:
            lines.append(
                f'    printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));'
            )
    for name in _native.CONSTANTS:
        lines.append(f'    printf("{name} %ld\\n", (long){name});')
    return "\n".join(lines + ["    return 0;", "}", ""])


def _ours() -> str:
    lines = []
    for name, kind in _native.STRUCTS.items():
        lines.append(f"{name} {ctypes.sizeof(kind)}")
        lines += [
            f"{name}.{field} {getattr(kind, field).offset} {getattr(kind, field).size}" for field, _ in kind._fields_
        ]
    return "\n".join(lines + [f"{name} {value}" for name, value in _native.CONSTANTS.items()] + [""])


def test_layout_is_the_headers(tmp_path: pathlib.Path) -> None:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler here")
    source, program = tmp_path / "layout.c", tmp_path / "layout"
    source.write_text(_program())
    subprocess.run([compiler, "-std=c11", "-I", str(INCLUDE), str(source), "-o", str(program)], check=True)
    assert subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout == _ours()


def test_struct_size_is_filled_in() -> None:
    assert _native.PrefillArgs().struct_size == ctypes.sizeof(_native.PrefillArgs)
    assert _native.KernelDesc(h_q=64).h_q == 64


def test_59_other_threads_run_during_a_call(device: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """ctypes gives up the interpreter's lock: a thread goes on ticking while another waits for the compiler."""
    monkeypatch.setenv("SMLA_CACHE", "off")
    context = _context.Context(device)
    ticks, done = [], threading.Event()

    def tick() -> None:
        while not done.wait(0.001):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    context.kernel(_context.Description(37, 0, op=_native.OP_COMBINE))
    end = time.monotonic()
    done.set()
    thread.join()
    meanwhile = sum(start < moment < end for moment in ticks)
    assert meanwhile >= 10, f"{meanwhile} ticks in {end - start:.3f} s"
