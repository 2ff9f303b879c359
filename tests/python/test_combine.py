"""smla.combine on the emulated device: values, types, conventions, strides, and parts that make the whole."""

from typing import Optional, Tuple

import numpy as np
import pytest

import problems
import reference
import smla

HEADS = 6


@pytest.fixture(scope="module", autouse=True)
def combine_kernel() -> None:
    try:
        smla.prepare_combine(HEADS)
    except (smla.UnavailableError, smla.NotCachedError) as error:
        pytest.skip(f"no kernel here: {error.message}")


def make_parts(parts: int, s_q: int = 3, seed: int = 0, empty: float = 0.3) -> Tuple[np.ndarray, np.ndarray]:
    """float32 parts and their lse; what an empty part holds is NaN."""
    random = np.random.default_rng(seed)
    out = random.standard_normal((parts, s_q, HEADS, 512)).astype(np.float32)
    lse = (3 * random.standard_normal((parts, s_q, HEADS))).astype(np.float32)
    dead = random.random(lse.shape) < empty
    out[dead] = np.nan
    lse[dead] = random.choice(np.array([np.inf, -np.inf], np.float32), dead.sum())
    return out, lse


def merge(out: np.ndarray, lse: np.ndarray, sink: Optional[np.ndarray] = None) -> reference.Expected:
    """combine in float64; natural logarithms."""
    if out.shape[0] == 0:
        out, lse = np.zeros((1,) + out.shape[1:]), np.full((1,) + lse.shape[1:], np.inf)
    live = np.isfinite(lse)
    values = np.where(live[..., None], out.astype(np.float64), 0.0)
    logs = np.where(live, lse.astype(np.float64), -np.inf)
    with np.errstate(all="ignore"):
        top = logs.max(axis=0)
        weights = np.where(live, np.exp(logs - top), 0.0)
        total = weights.sum(axis=0)
        sunk = 0.0 if sink is None else np.exp(sink.astype(np.float64)[None, :] - top)
        share = np.where(total == 0, 0.0, weights / (total + sunk))
        merged = np.where(total == 0, np.inf, top + np.log(total))
    zeros = np.zeros(total.shape)
    return reference.Expected(
        np.einsum("pqh,pqhd->qhd", share, values),
        merged,
        zeros,
        np.einsum("pqh,pqhd->qhd", share, np.abs(values)),
        zeros,
    )


def check(result: Tuple[np.ndarray, np.ndarray], expected: reference.Expected) -> None:
    out, lse = result
    reference.check_out(out if out.dtype == np.uint16 else reference.to_bf16(out), expected)
    reference.check_row_values(lse, expected.lse, expected)
    if out.dtype == np.float32:
        assert (np.abs(out - expected.out) <= 2.0**-18 * expected.out_abs + 1e-30).all()


@pytest.mark.parametrize("parts", [0, 1, 2, 3, 7, 40])
@pytest.mark.parametrize("bf16", [True, False])
def test_parts_against_float64(parts: int, bf16: bool) -> None:
    out, lse = make_parts(parts, seed=parts)
    sink = np.array([0.5, np.inf, -np.inf, -2, 1e4, 3], np.float32)
    if bf16:
        bits = reference.to_bf16(out)
        before = bits.copy()
        result = smla.combine(bits, lse, attn_sink=sink)
        assert result[0].dtype == np.uint16 and np.array_equal(bits, before)
        check(result, merge(reference.from_bf16(bits), lse, sink))
    else:
        result = smla.combine(out, lse, attn_sink=sink)
        assert result[0].dtype == np.float32
        check(result, merge(out, lse, sink))


def test_given_outputs_name_their_type_and_strides() -> None:
    out, lse = make_parts(3)
    wide, wide_lse = np.full((3, 2, HEADS, 520), 7, np.uint16), np.full((3, HEADS + 2), 7, np.float32)
    result = smla.combine(out, lse, out=wide[:, 1, :, :512], lse=wide_lse[:, 1:-1])
    assert result[0].base is wide and result[1].base is wide_lse
    check(result, merge(out, lse))
    assert (wide[:, 0] == 7).all() and (wide[:, :, :, 512:] == 7).all() and (wide_lse[:, [0, -1]] == 7).all()


def test_strided_inputs() -> None:
    out, lse = make_parts(4, s_q=2)
    wide = np.full((2, 4, HEADS + 1, 516), np.nan, np.float32)
    turned = np.full((HEADS, 2, 4), np.nan, np.float32)  # heads outside, parts inside
    views = wide.transpose(1, 0, 2, 3)[:, :, 1:, 4:], turned.transpose(2, 1, 0)
    views[0][...], views[1][...] = out, lse
    check(smla.combine(*views), merge(out, lse))


def test_conventions() -> None:
    out, lse = make_parts(3, empty=0.6, seed=5)
    lse[:, 0] = np.inf
    expected = merge(out, lse)
    sink = np.linspace(-1, 4, HEADS).astype(np.float32)
    scaled = (lse.astype(np.float64) / reference.LN2).astype(np.float32)
    check(smla.combine(out, scaled, partial_lse_base_2=True), expected)
    got = smla.combine(out, lse, lse_base_2=True)[1]
    reference.check_row_values(got, expected.lse, expected, factor=reference.LN2)
    got = smla.combine(out, lse, lse_empty_negative=True)[1]
    assert np.isneginf(got[0]).all()
    got = smla.combine(out, lse, attn_sink=sink, lse_with_sink=True)[1]
    plain = np.where(np.isposinf(expected.lse), -np.inf, expected.lse)
    reference.check_row_values(got, np.logaddexp(plain, sink[None, :].astype(np.float64)), expected)
    assert smla.combine(out, lse, lse=None)[1] is None


def test_a_nan_reaches_its_row_alone() -> None:
    out, lse = make_parts(2, empty=0)
    out[1, 0, 2, 17] = np.nan
    lse[0, 1, 3] = np.nan
    got, logs = smla.combine(out, lse)
    wrong = np.isnan(got)
    assert wrong[0, 2, 17] and wrong[1, 3].all() and wrong.sum() == 513
    assert np.isnan(logs[1, 3]) and np.isnan(logs).sum() == 1


def test_a_dependent_launch_gives_the_same_bits() -> None:
    out, lse = make_parts(3, seed=9)
    for a, b in zip(smla.combine(out, lse), smla.combine(out, lse, after_previous=True)):
        assert np.array_equal(a, b)


def test_nothing_to_do() -> None:
    out, lse = smla.combine(np.zeros((2, 0, HEADS, 512), np.float32), np.zeros((2, 0, HEADS), np.float32))
    assert out.shape == (0, HEADS, 512) and lse.shape == (0, HEADS)


def test_shards_of_a_list_make_the_whole(device: int) -> None:
    problem = problems.make(s_q=4, s_kv=300, topk=200, sinks=True, invalid=0.4)
    problem.indices[2, :70] = -1  # an empty shard
    expected = reference.prefill(
        problem.query, problem.kv, problem.indices, problem.sm_scale, problem.attn_sink, problem.topk_length
    )
    shards = [
        smla.prefill(problem.query, problem.kv, part, problem.sm_scale)
        for part in np.split(problem.indices, [70, 128], axis=1)
    ]
    assert np.isposinf(shards[0][2][2]).all()
    out, lse = smla.combine(
        np.stack([shard[0] for shard in shards]),
        np.stack([shard[2] for shard in shards]),
        attn_sink=problem.attn_sink,
    )
    reference.check_out(out, expected)
    reference.check_row_values(lse, expected.lse, expected)


def test_what_is_wrong_is_said() -> None:
    out, lse = make_parts(2)
    with pytest.raises(smla.InvalidArgumentError, match=r"partial_lse is \[2, 3\] f32"):
        smla.combine(out, lse[:, :, 0])
    with pytest.raises(smla.InvalidArgumentError, match=r"partial_out is .* f64: \[parts, s_q, h_q, d_v\] bf16 or f32"):
        smla.combine(out.astype(np.float64), lse)
    with pytest.raises(smla.InvalidArgumentError, match="its last dimension has stride 2"):
        smla.combine(np.zeros((2, 3, HEADS, 1024), np.float32)[..., ::2], lse)
    with pytest.raises(smla.InvalidArgumentError, match="attn_sink is"):
        smla.combine(out, lse, attn_sink=np.zeros(HEADS + 1, np.float32))
    with pytest.raises(smla.UnsupportedError, match="d_v 256"):
        smla.combine(out[..., :256], lse)
