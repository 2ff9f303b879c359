#!/usr/bin/env python3
"""Prints the host time of smla's calls from torch, in µs, and asserts nothing.

On a card: the tensors are there, and what is timed is the enqueueing. Without one: the build's stub driver, whose
launches do nothing, and tensors that only say that they are on a card; torch's current stream and allocator are then
those of the CPU.

usage: host_cost.py [BUILD]    BUILD: the build folder with the stubs, build when not given; not read on a card
"""

import argparse
import ctypes
import os
import pathlib
import sys
import time
import types
from typing import Any, Callable, Dict, Tuple

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "python"))
CALLS, ROUNDS = 2000, 7


class OnCard(torch.Tensor):
    """A tensor of the host that says it is on device 0."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    is_cuda = True
    device = torch.device("cuda", 0)

    def get_device(self) -> int:
        return 0


class StubDriver(ctypes.Structure):
    """The start of struct stub_driver of tests/stub/stub.h."""

    _fields_ = [
        ("fail_name", ctypes.c_char_p),
        ("script", ctypes.c_int * 4),
        ("numbers", ctypes.c_int * 9),
        ("param_offset", ctypes.c_size_t),
        ("param_bytes", ctypes.c_size_t),
    ]


def without_card(build: pathlib.Path, parameter_bytes: int = 280) -> None:
    """Puts the stubs in the driver's and NVRTC's places. parameter_bytes: of the prefill kernel, which the driver tells
    and smla checks."""
    names = {"SMLA_LIBRARY": "libsmla.so", "SMLA_DRIVER": "libcuda_stub.so", "SMLA_NVRTC": "libnvrtc_stub.so"}
    os.environ.update({key: str(build / "lib" / name) for key, name in names.items()}, SMLA_CACHE="off")
    stub = ctypes.CDLL(os.environ["SMLA_DRIVER"]).stub_driver
    stub.restype = ctypes.POINTER(StubDriver)
    stub().contents.param_bytes = parameter_bytes
    empty = torch.empty
    torch.empty = lambda shape, dtype, device: empty(shape, dtype=dtype).as_subclass(OnCard)
    torch.cuda.current_stream = lambda _=None: types.SimpleNamespace(cuda_stream=0)
    torch._C._cuda_getCurrentRawStream = lambda _: 0


def make(on_card: bool) -> Dict[str, Any]:
    """Arguments of flash_mla_sparse_fwd: one query of 64 heads."""

    def tensor(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        made = torch.zeros(shape, dtype=dtype, device="cuda" if on_card else "cpu")
        return made if on_card else made.as_subclass(OnCard)

    return dict(
        q=tensor(1, 64, 512, dtype=torch.bfloat16),
        kv=tensor(300, 1, 512, dtype=torch.bfloat16),
        indices=tensor(1, 1, 128, dtype=torch.int32),
        sm_scale=512**-0.5,
        attn_sink=tensor(64, dtype=torch.float32),
        topk_length=tensor(1, dtype=torch.int32),
    )


def cost(call: Callable[[], Any], wait: Callable[[], None]) -> float:
    """µs a call: the best round of several."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, time.perf_counter() - started)
        wait()
    return best / CALLS * 1e6


def entries(a: Dict[str, Any], out: torch.Tensor) -> Tuple[Tuple[str, Callable[[], Any]], ...]:
    import smla
    from smla import deepinfer
    from smla.flash_mla import flash_mla_sparse_fwd

    os.environ["DEEPINFER_SPARSE_MLA_BACKEND"] = "smla"
    values = tuple(a.values())
    return (
        ("flash_mla_sparse_fwd", lambda: flash_mla_sparse_fwd(**a)),
        ("flash_mla_sparse_fwd, out=", lambda: flash_mla_sparse_fwd(**a, out=out)),
        ("prefill, out=, no lse", lambda: smla.prefill(*values[:4], out=out, lse=None, max_logits=None)),
        ("deepinfer.prefill_attn_varlen_sparse", lambda: deepinfer.prefill_attn_varlen_sparse(*values)),
        ("prefill with stream=, the general path", lambda: smla.prefill(*values[:4], out=out, stream=0)),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build", help="has the stubs, in lib")
    build = parser.parse_args().build.resolve()
    on_card = torch.cuda.is_available()
    if not on_card:
        without_card(build)
    print(torch.cuda.get_device_name() if on_card else "stub driver", f"torch {torch.__version__}")
    a = make(on_card)
    for name, call in entries(a, torch.empty((1, 64, 512), dtype=torch.bfloat16, device=a["q"].device)):
        call()
        print(f"{name}: {cost(call, torch.cuda.synchronize if on_card else lambda: None):.1f} us a call")
    return 0


if __name__ == "__main__":
    sys.exit(main())
