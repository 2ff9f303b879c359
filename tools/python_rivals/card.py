"""A card by torch: inputs, graphs, events."""

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy
import torch

from . import lists
from .measure import DeviceFault
from .shapes import D_V, Shape

MOST_COPIES, COMPARED_AT_ONCE = 512, 256


@dataclasses.dataclass
class Copy:
    query: torch.Tensor  # [s_q, h_q, d_qk] bf16
    indices: torch.Tensor  # [s_q, topk] int32
    lengths: Optional[torch.Tensor]  # [s_q] int32
    out: torch.Tensor  # smla's; [s_q, h_q, d_v] bf16
    lse: torch.Tensor  # [s_q, h_q] float32
    max_logits: torch.Tensor


@dataclasses.dataclass
class Problem:
    shape: Shape
    scale: float
    kv: torch.Tensor  # [s_kv, d_qk] bf16, with a row of zeros before it and one behind
    sink: Optional[torch.Tensor]  # [h_q] float32
    inputs: List[Copy]
    keys: List[int]  # valid entries of each copy
    copy_bytes: int  # of query, lists and out

    @property
    def copies(self) -> int:
        return len(self.inputs)


class Card:
    """torch's current device."""

    def __init__(self, seed: int = 0) -> None:
        self.properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.stream = torch.cuda.Stream()
        self.seed = seed

    # ---- Inputs ----

    def _copies(self, copy_bytes: int) -> int:
        """As many as go past the L2 cache twice, in at most half of what is free."""
        wanted = max(2, 2 * self.properties.L2_cache_size // copy_bytes + 1)
        fit = torch.cuda.mem_get_info()[0] // 2 // copy_bytes
        return max(1, min(wanted, fit, MOST_COPIES))

    def _copy(self, shape: Shape, random: numpy.random.Generator) -> Tuple[Copy, int]:
        made = lists.make(shape, random)
        on_card: Dict[str, Any] = {"device": "cuda"}
        rows = (shape.s_q, shape.h_q)
        copy = Copy(
            torch.randn(*rows, shape.d_qk, dtype=torch.bfloat16, **on_card),
            torch.from_numpy(made.indices).cuda(),
            None if made.lengths is None else torch.from_numpy(made.lengths).cuda(),
            torch.empty(*rows, D_V, dtype=torch.bfloat16, **on_card),
            torch.empty(*rows, dtype=torch.float32, **on_card),
            torch.empty(*rows, dtype=torch.float32, **on_card),
        )
        return copy, made.keys

    def make(self, shape: Shape) -> Problem:
        torch.cuda.empty_cache()
        torch.manual_seed(self.seed)
        random = numpy.random.default_rng(self.seed)
        pool = torch.randn(shape.s_kv + 2, shape.d_qk, dtype=torch.bfloat16, device="cuda")
        pool[0] = pool[-1] = 0
        sink = torch.randn(shape.h_q, device="cuda") if shape.sink else None
        size = shape.s_q * (2 * shape.h_q * (shape.d_qk + D_V) + 4 * shape.topk + (4 if shape.lengths else 0))
        pairs = [self._copy(shape, random) for _ in range(self._copies(size))]
        self.check()
        return Problem(
            shape, shape.d_qk**-0.5, pool[1:-1], sink, [pair[0] for pair in pairs], [pair[1] for pair in pairs], size
        )

    # ---- Running ----

    def check(self) -> None:
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise DeviceFault(str(error).splitlines()[0])

    def elapsed_us(self, work: Callable[[], Any]) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self.stream):
            begin.record()
            kept = work()  # outputs live until the device is through
            end.record()
        end.synchronize()
        del kept
        return begin.elapsed_time(end) * 1e3

    def capture(self, call: Callable[[int], Any], launches: int, copies: int) -> Callable[[], None]:
        """The outputs that a call allocates are kept, as many as there are copies, so that it writes as much memory in
        a replay as one that is given its outputs."""
        graph = torch.cuda.CUDAGraph()
        outputs: List[Any] = [None] * copies
        self.check()
        with torch.cuda.graph(graph, stream=self.stream):
            for i in range(launches):
                outputs[i % copies] = call(i % copies)

        def replay(graph: Any = graph, outputs: Any = outputs) -> None:
            graph.replay()

        self.check()
        return replay

    # ---- Comparing ----

    def poison(self, problem: Problem) -> None:
        problem.inputs[0].out.fill_(float("nan"))
        self.check()

    def compare(self, ours: torch.Tensor, theirs: torch.Tensor) -> Tuple[float, float]:
        difference = largest = 0.0
        theirs = theirs.reshape(ours.shape)
        for start in range(0, ours.shape[0], COMPARED_AT_ONCE):
            a, b = (each[start : start + COMPARED_AT_ONCE].float() for each in (ours, theirs))
            apart = torch.where(a.isnan() & b.isnan(), 0.0, (a - b).abs())
            difference = max(difference, float(apart.nan_to_num(nan=float("inf")).max()))
            largest = max(largest, float(a.abs().nan_to_num(nan=0.0).max()))
        return difference, largest

    # ---- What it is ----

    def name(self) -> str:
        return self.properties.name

    def facts(self) -> Dict[str, Any]:
        return {
            "multiprocessors": self.properties.multi_processor_count,
            "l2_bytes": self.properties.L2_cache_size,
            "memory_bytes": self.properties.total_memory,
        }

    def driver(self) -> Tuple[int, Optional[str]]:
        """For which CUDA the driver is (13000), and, where NVML is there, what it calls itself."""
        try:
            import pynvml

            pynvml.nvmlInit()
            text = pynvml.nvmlSystemGetDriverVersion()
            text = text.decode() if isinstance(text, bytes) else text
        except Exception:
            text = None
        return torch._C._cuda_getDriverVersion(), text
