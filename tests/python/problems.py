"""Problems for the tests: random tensors by a seed, as numpy arrays."""

import dataclasses
from typing import Dict, Optional

import numpy as np

from reference import to_bf16

# s_q, s_kv, topk, lengths, sinks. The seven kinds of call, small; on a card their sizes are those of serving.
SHAPES = {
    "one query": dict(s_q=1, s_kv=700, topk=512),
    "window": dict(s_q=6, s_kv=192, topk=128),
    "trace k640": dict(s_q=5, s_kv=900, topk=640, lengths=True, sinks=True),
    "v4 k512 with sinks": dict(s_q=4, s_kv=1500, topk=512, sinks=True),
    "topk past s_kv": dict(s_q=4, s_kv=100, topk=256, lengths=True),
    "odd topk": dict(s_q=3, s_kv=333, topk=133, sinks=True, lengths=True),
    "long list": dict(s_q=2, s_kv=2500, topk=2048, lengths=True),
}


@dataclasses.dataclass
class Problem:
    query: np.ndarray  # [s_q, 64, 512] bits of bf16
    kv: np.ndarray  # [s_kv, 512] bits of bf16
    indices: np.ndarray  # [s_q, topk] int32
    sm_scale: float
    topk_length: Optional[np.ndarray] = None
    attn_sink: Optional[np.ndarray] = None

    def inputs(self) -> Dict[str, np.ndarray]:
        named = {
            "query": self.query,
            "kv": self.kv,
            "indices": self.indices,
            "topk_length": self.topk_length,
            "attn_sink": self.attn_sink,
        }
        return {name: value for name, value in named.items() if value is not None}


def make(
    s_q: int,
    s_kv: int,
    topk: int,
    lengths: bool = False,
    sinks: bool = False,
    seed: int = 0,
    invalid: float = 0.05,
    heads: int = 64,
) -> Problem:
    """Distinct keys while there are some, -1 and numbers past the end among them; lengths from 0 to topk, 0 in the
    list."""
    random = np.random.default_rng(seed)
    query = to_bf16(random.standard_normal((s_q, heads, 512)))
    kv = to_bf16(random.standard_normal((s_kv, 512)))
    indices = np.full((s_q, topk), -1, np.int32)
    for row in indices:
        count = min(topk, s_kv)
        row[:count] = random.permutation(s_kv)[:count]
        random.shuffle(row)
    wrong = random.random(indices.shape) < invalid
    indices[wrong] = random.choice(np.array([-1, -(2**31), s_kv, 2**31 - 1]), wrong.sum()).astype(np.int32)
    length = random.integers(0, topk + 1, s_q).astype(np.int32) if lengths else None
    if lengths and s_q > 1:
        length[0] = 0
    sink = random.standard_normal(heads).astype(np.float32) if sinks else None
    if sinks:
        sink[3], sink[7] = np.inf, -np.inf
    return Problem(query, kv, indices, 512**-0.5, length, sink)
