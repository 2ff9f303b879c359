"""smla.prefill and smla.flash_mla on the emulated device: values, options, strides, inputs."""

import threading

import numpy as np
import pytest

import problems
import reference
import smla
from smla.flash_mla import flash_mla_sparse_fwd

ml_dtypes = pytest.importorskip("ml_dtypes")


def expected_of(problem: problems.Problem) -> reference.Expected:
    return reference.prefill(
        problem.query, problem.kv, problem.indices, problem.sm_scale, problem.attn_sink, problem.topk_length
    )


def call(problem: problems.Problem, **options: object):
    return smla.prefill(**problem.inputs(), sm_scale=problem.sm_scale, **options)


@pytest.mark.parametrize("name", problems.SHAPES)
def test_seven_shapes_against_float64(device: int, name: str) -> None:
    problem = problems.make(**problems.SHAPES[name])
    before = {key: value.copy() for key, value in problem.inputs().items()}
    result = flash_mla_sparse_fwd(
        problem.query,
        problem.kv[:, None, :],
        problem.indices[:, None, :],
        problem.sm_scale,
        attn_sink=problem.attn_sink,
        topk_length=problem.topk_length,
    )
    reference.check(result, expected_of(problem))
    for key, value in problem.inputs().items():
        assert np.array_equal(before[key], value), f"{key} was changed"


def test_bits_are_the_same_twice_and_at_another_address(device: int) -> None:
    problem = problems.make(s_q=3, s_kv=300, topk=256, sinks=True, lengths=True)
    first = call(problem)
    problem.query, problem.kv = problem.query.copy(), problem.kv.copy()
    for a, b in zip(first, call(problem)):
        assert np.array_equal(a, b)


def test_bits_do_not_depend_on_what_runs_beside(device: int) -> None:
    problem = problems.make(s_q=5, s_kv=300, topk=192, sinks=True, lengths=True)
    for asked in (dict(), dict(not_persistent=True)):  # not persistent: the limit is not kept
        asked["batch_invariant"] = True  # few queries would be split, by what the limit leaves
        first = call(problem, **asked)
        reference.check(first, expected_of(problem))
        for limit in (1, 3, 1000):
            for a, b in zip(first, call(problem, after_previous=True, sm_limit=limit, **asked)):
                assert np.array_equal(a, b)
    assert smla.query_support(64, 512, target="90").blocks_per_sm == 1
    assert smla.query_support(64, 512, not_persistent=True, target="90").blocks_per_sm == 0
    with pytest.raises(smla.InvalidArgumentError, match="sm_limit -1"):
        call(problem, sm_limit=-1)


def test_new_contents_at_the_same_address_count(device: int) -> None:
    problem = problems.make(s_q=2, s_kv=64, topk=64, seed=1)
    call(problem)
    problem.kv[:] = problems.make(s_q=2, s_kv=64, topk=64, seed=2).kv
    problem.indices[:] = problem.indices[:, ::-1].copy()
    reference.check(call(problem), expected_of(problem))


def test_ml_dtypes_gives_ml_dtypes(device: int) -> None:
    problem = problems.make(s_q=2, s_kv=64, topk=64)
    bits = call(problem)[0]
    problem.query, problem.kv = problem.query.view(ml_dtypes.bfloat16), problem.kv.view(ml_dtypes.bfloat16)
    out = call(problem)[0]
    assert out.dtype == ml_dtypes.bfloat16 and np.array_equal(out.view(np.uint16), bits)


def test_strided_inputs_and_outputs(device: int) -> None:
    problem = problems.make(s_q=3, s_kv=80, topk=64, sinks=True, lengths=True)
    wide = {
        "query": np.zeros((3, 70, 520), np.uint16),
        "kv": np.zeros((80, 3, 520), np.uint16),
        "indices": np.zeros((3, 99), np.int32),
        "topk_length": np.zeros((3, 2), np.int32),
    }
    views = {
        "query": wide["query"][:, 2:66, 8:],
        "kv": wide["kv"][:, 1:2, :512],
        "indices": wide["indices"][:, 7:71],
        "topk_length": wide["topk_length"][:, 1],
    }
    for name, view in views.items():
        view[...] = problem.inputs()[name].reshape(view.shape)
    out, lse, top = (
        np.full((3, 2, 64, 512), 7, np.uint16),
        np.full((3, 66), 7, np.float32),
        np.full((3, 65), 7, np.float32),
    )
    result = smla.prefill(
        views["query"],
        views["kv"],
        views["indices"],
        problem.sm_scale,
        attn_sink=problem.attn_sink,
        topk_length=views["topk_length"],
        out=out[:, 1],
        lse=lse[:, 1:65],
        max_logits=top[:, :64],
    )
    assert result[0].base is out and result[2].base is lse
    reference.check(result, expected_of(problem))
    assert (out[:, 0] == 7).all() and (lse[:, 0] == 7).all() and (lse[:, 65] == 7).all() and (top[:, 64] == 7).all()


def test_an_expanded_length_is_taken(device: int) -> None:
    problem = problems.make(s_q=3, s_kv=80, topk=64)
    problem.topk_length = np.broadcast_to(np.array([5], np.int32), (3,))
    reference.check(call(problem), expected_of(problem))


def test_lse_flags(device: int) -> None:
    problem = problems.make(s_q=3, s_kv=90, topk=64, sinks=True, lengths=True)
    expected = expected_of(problem)
    assert np.isposinf(expected.lse[0]).all()
    lse = call(problem, lse_base_2=True)[2]
    reference.check_row_values(lse, expected.lse, expected, factor=reference.LN2)
    lse = call(problem, lse_empty_negative=True)[2]
    assert np.isneginf(lse[0]).all() and np.isfinite(lse[1:]).all()
    lse = call(problem, lse_with_sink=True)[2]
    plain = np.where(np.isposinf(expected.lse), -np.inf, expected.lse)
    with np.errstate(all="ignore"):
        reference.check_row_values(lse, np.logaddexp(plain, problem.attn_sink[None, :]), expected)
    out, top, lse = call(problem, lse=None, max_logits=False)
    assert top is None and lse is None
    reference.check_out(out, expected)


def test_nothing_to_do(device: int) -> None:
    for s_q, s_kv, topk in [(0, 10, 64), (2, 0, 64), (2, 10, 0)]:
        problem = problems.make(s_q=s_q, s_kv=s_kv, topk=topk)
        out, top, lse = call(problem)
        assert out.shape == (s_q, 64, 512) and not out.any()
        assert np.isneginf(top).all() and np.isposinf(lse).all()


def test_a_nan_reaches_its_rows_alone(device: int) -> None:
    problem = problems.make(s_q=2, s_kv=64, topk=64, invalid=0)
    problem.indices[0] %= 32
    problem.kv[40] = 0x7FC0
    out, top, lse = call(problem)
    assert np.isnan(reference.from_bf16(out[1])).all() and np.isnan(lse[1]).all() and np.isnan(top[1]).all()
    assert np.isfinite(reference.from_bf16(out[0])).all() and np.isfinite(lse[0]).all()


def test_threads_share_one_kernel(device: int) -> None:
    problem = problems.make(s_q=1, s_kv=64, topk=64)
    expected = call(problem)
    loaded = smla.stats()["kernels_loaded"]
    wrong = []

    def work() -> None:
        if not all(np.array_equal(a, b) for a, b in zip(call(problem), expected)):
            wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and smla.stats()["kernels_loaded"] == loaded
