"""Sparse attention in float64, and the bounds of a right result, in numpy."""

import dataclasses
from typing import Optional, Tuple

import numpy as np

LN2 = float(np.log(2.0))


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Floats to the bits of bf16, nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """Bits of bf16 to float64."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@dataclasses.dataclass
class Expected:
    out: np.ndarray  # [s_q, h, d_v]
    lse: np.ndarray  # [s_q, h]
    max_logits: np.ndarray
    out_abs: np.ndarray  # sum of p |v|
    logit_abs: np.ndarray  # |scale| sum |q k| of the row's largest key


def attend(
    query: np.ndarray, rows: np.ndarray, valid: np.ndarray, scale: float, sink: Optional[np.ndarray], d_v: int = 512
) -> Expected:
    """query [s_q, h, d], rows [s_q, k, d] float64, valid [s_q, k]; scale as the float32 that the kernel gets."""
    scale = float(np.float32(scale))
    rows = np.where(valid[:, :, None], rows, 0.0)
    with np.errstate(all="ignore"):
        logits = scale * np.einsum("qhd,qkd->qhk", query, rows)
        sums = abs(scale) * np.einsum("qhd,qkd->qhk", np.abs(query), np.abs(rows))
        logits = np.where(valid[:, None, :], logits, -np.inf)
        if logits.shape[2] == 0:
            logits, sums, rows = (
                np.full(logits.shape[:2] + (1,), -np.inf),
                np.zeros(logits.shape[:2] + (1,)),
                np.zeros((rows.shape[0], 1, rows.shape[2])),
            )
        top = logits.max(axis=2)
        weights = np.exp(logits - np.where(np.isneginf(top), 0.0, top)[:, :, None])
        total = weights.sum(axis=2)
        lse = np.where(total == 0, np.inf, top + np.log(total))
        sunk = 0.0 if sink is None else np.exp(np.asarray(sink, np.float64)[None, :] - top)
        p = np.where((total == 0)[:, :, None], 0.0, weights / (total + sunk)[:, :, None])
        values = rows[:, :, :d_v]
        logit_abs = np.take_along_axis(sums, logits.argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
    return Expected(p @ values, lse, top, p @ np.abs(values), logit_abs)


def prefill(
    query: np.ndarray,
    kv: np.ndarray,
    indices: np.ndarray,
    scale: float,
    sink: Optional[np.ndarray] = None,
    length: Optional[np.ndarray] = None,
) -> Expected:
    """The call on bits of bf16: query [s_q, h, d], kv [s_kv, d], indices [s_q, topk]."""
    valid = (indices >= 0) & (indices < len(kv))
    if length is not None:
        valid &= np.arange(indices.shape[1])[None, :] < np.asarray(length)[:, None]
    picked = np.where(valid, indices, 0)
    rows = from_bf16(kv)[picked] if len(kv) else np.zeros(indices.shape + (query.shape[2],))
    return attend(from_bf16(query), rows, valid, scale, sink)


def ulp_of(values: np.ndarray) -> np.ndarray:
    """A bf16 unit in the last place at these magnitudes."""
    return np.exp2(np.floor(np.log2(np.maximum(np.abs(values), 2.0**-126))) - 7)


def check_out(out: np.ndarray, expected: Expected) -> float:
    """The three bounds of shared/interface.md, and returns the largest error in ULP of the row's largest value."""
    got = from_bf16(out).reshape(expected.out.shape)
    error = np.abs(got - expected.out)
    assert np.isfinite(got).all()
    assert (error <= 2.0**-8 * (expected.out_abs + np.abs(expected.out)) + 1e-6).all()
    if np.any(expected.out):
        cosine = 1 - 2 * (got * expected.out).sum() / ((got**2).sum() + (expected.out**2).sum())
        assert cosine <= 7e-6
    row = np.abs(expected.out).max(axis=2)
    ulps = (error.max(axis=2) / ulp_of(row))[row > 0]
    worst = float(ulps.max()) if ulps.size else 0.0
    assert worst <= 2.0
    return worst


def check_row_values(
    got: np.ndarray, wanted: np.ndarray, expected: Expected, units: float = 2.01, factor: float = 1.0
) -> None:
    """lse or max_logits (times `factor`, for another base): infinities equal, the rest within the bound."""
    got = np.asarray(got, np.float64).reshape(wanted.shape) * factor
    finite = np.isfinite(wanted)
    assert np.array_equal(got[~finite], wanted[~finite])
    bound = 1e-6 + units / 65536 * np.abs(wanted) + 2.0**-22 * expected.logit_abs
    assert (np.abs(got[finite] - wanted[finite]) <= bound[finite]).all()


def check(result: Tuple[np.ndarray, np.ndarray, np.ndarray], expected: Expected) -> float:
    """(out, max_logits, lse) in natural logarithms. Returns the largest error of out in ULP."""
    out, max_logits, lse = result
    check_row_values(max_logits, expected.max_logits, expected)
    check_row_values(lse, expected.lse, expected)
    return check_out(out, expected)
