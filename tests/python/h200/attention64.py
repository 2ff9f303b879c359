"""Sparse attention in float64 with torch, on any device, and the bounds of shared/interface.md."""

from typing import Dict, NamedTuple, Optional

import torch

LN2 = 0.6931471805599453
CHUNK_ELEMS = 1 << 27  # of gathered keys at once


class Expected(NamedTuple):
    out: torch.Tensor  # [s_q, h, d_v] float64, as are all
    lse: torch.Tensor  # [s_q, h]
    max_logits: torch.Tensor
    out_abs: torch.Tensor
    logit_abs: torch.Tensor


def attend(
    query: torch.Tensor,
    rows: torch.Tensor,
    valid: torch.Tensor,
    scale: float,
    sink: Optional[torch.Tensor],
    d_v: int = 512,
) -> Expected:
    """query [n, h, d], rows [n, k, d], valid [n, k]; scale is taken as the float32 that a kernel gets."""
    scale = float(torch.tensor(scale, dtype=torch.float32))
    query = query.double()
    rows = torch.where(valid[:, :, None], rows.double(), 0.0)
    logits = torch.where(valid[:, None, :], scale * (query @ rows.transpose(1, 2)), -torch.inf)
    top, position = logits.max(dim=2)
    weights = torch.exp(logits - torch.where(torch.isneginf(top), 0.0, top)[:, :, None])
    total = weights.sum(dim=2)
    lse = torch.where(total == 0, torch.inf, top + torch.log(total))
    sunk = 0.0 if sink is None else torch.exp(sink.double()[None, :] - top)
    p = torch.where((total == 0)[:, :, None], 0.0, weights / (total + sunk)[:, :, None])
    best = torch.gather(rows.abs(), 1, position[:, :, None].expand(-1, -1, rows.shape[2]))
    logit_abs = abs(scale) * (query.abs() * best).sum(dim=2)
    return Expected(p @ rows[:, :, :d_v], lse, top, p @ rows[:, :, :d_v].abs(), logit_abs)


def prefill(
    query: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    scale: float,
    sink: Optional[torch.Tensor] = None,
    length: Optional[torch.Tensor] = None,
) -> Expected:
    """The call: query [s_q, h, d], kv [s_kv, d], indices [s_q, topk]; in chunks of queries."""
    valid = (indices >= 0) & (indices < kv.shape[0])
    if length is not None:
        valid &= torch.arange(indices.shape[1], device=indices.device) < length[:, None]
    picked = torch.where(valid, indices, 0)
    step = max(1, CHUNK_ELEMS // max(1, indices.shape[1] * kv.shape[1]))
    parts = [
        attend(query[i : i + step], kv[picked[i : i + step]], valid[i : i + step], scale, sink)
        for i in range(0, query.shape[0], step)
    ]
    return Expected(*(torch.cat(column) for column in zip(*parts)))


def measure(
    expected: Expected,
    out: torch.Tensor,
    lse: Optional[torch.Tensor] = None,
    max_logits: Optional[torch.Tensor] = None,
    lse_factor: float = 1.0,
    lse_units: float = 2.01,
) -> Dict[str, float]:
    """Errors over their bounds (each must be at most 1), and the ULP of the row's largest value (at most 2)."""
    got = out.double().reshape(expected.out.shape)
    error = (got - expected.out).abs()
    row = expected.out.abs().amax(dim=2)
    ulp = torch.exp2(torch.floor(torch.log2(row.clamp_min(2.0**-126))) - 7)
    norm = float((got**2).sum() + (expected.out**2).sum())
    result = {
        "bound": float((error / (2.0**-8 * (expected.out_abs + expected.out.abs()) + 1e-6)).nan_to_num(9e9).max()),
        "ulp": float(torch.where(row > 0, error.amax(dim=2) / ulp, 0.0).nan_to_num(9e9).max()),
        "cosine": (1 - 2 * float((got * expected.out).sum()) / norm) / 7e-6 if norm else 0.0,
    }
    for name, values, wanted, factor, units in (
        ("lse", lse, expected.lse, lse_factor, lse_units),
        ("max_logits", max_logits, expected.max_logits, 1.0, 2.01),
    ):
        if values is not None:
            result[name] = _row_error(values.double().reshape(wanted.shape) * factor, wanted, expected.logit_abs, units)
    return result


def _row_error(got: torch.Tensor, wanted: torch.Tensor, logit_abs: torch.Tensor, units: float) -> float:
    finite = torch.isfinite(wanted)
    if not torch.equal(got[~finite], wanted[~finite]):
        return float("inf")
    bound = 1e-6 + units / 65536 * wanted.abs() + 2.0**-22 * logit_abs
    return float(((got - wanted).abs() / bound)[finite].nan_to_num(9e9).max()) if finite.any() else 0.0


def check(measured: Dict[str, float]) -> None:
    assert measured["ulp"] <= 2.0 and all(value <= 1.0 for name, value in measured.items() if name != "ulp"), measured
