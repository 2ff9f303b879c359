"""DeepInfer's two entry points on smla: the adapter's contract item by item, decode over quantised caches."""

import os
import pathlib
from typing import Any, Dict, Optional

import numpy as np
import pytest

import problems
import reference
import smla
from smla import _deepinfer_smla, deepinfer, kv_formats
from smla.flash_mla import flash_mla_sparse_fwd
from smla.flashinfer_trace import run

pytest.importorskip("ml_dtypes")
GATHER = kv_formats.gather
CASES = pathlib.Path(os.environ.get("SMLA_CASES", pathlib.Path(__file__).resolve().parents[3] / "shared" / "cases"))


@pytest.fixture(autouse=True)
def on_smla(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEEPINFER_SPARSE_MLA_BACKEND", "smla")
    deepinfer.reset()
    yield
    assert deepinfer.fallbacks() == 0
    deepinfer.reset()


def prefill(problem: problems.Problem, **changes: Any):
    options = dict(attn_sink=problem.attn_sink, index_length=problem.topk_length)
    options.update(changes)
    return deepinfer.prefill_attn_varlen_sparse(
        problem.query, problem.kv[:, None, :], problem.indices, problem.sm_scale, **options
    )


def expected_of(problem: problems.Problem) -> reference.Expected:
    return reference.prefill(
        problem.query, problem.kv, problem.indices, problem.sm_scale, problem.attn_sink, problem.topk_length
    )


def test_arguments_pair_by_position(device: int) -> None:
    """(query, kv, index_topk, softmax_scale, attn_sink, index_length): each is used, and as what it is."""
    problem = problems.make(s_q=4, s_kv=80, topk=64, sinks=True, lengths=True)
    out, lse = deepinfer.prefill_attn_varlen_sparse(
        problem.query, problem.kv[:, None], problem.indices, problem.sm_scale, problem.attn_sink, problem.topk_length
    )
    reference.check_out(out, expected_of(problem))
    problem.topk_length = None
    without_length = prefill(problem)
    reference.check_out(without_length[0], expected_of(problem))
    problem.attn_sink = None
    reference.check_out(prefill(problem)[0], expected_of(problem))
    problem.sm_scale *= 2
    reference.check_out(prefill(problem)[0], expected_of(problem))
    assert not np.array_equal(out, without_length[0])


def test_lse_is_in_base_2_and_without_the_sink(device: int) -> None:
    problem = problems.make(s_q=3, s_kv=80, topk=64, sinks=True)
    lse = prefill(problem)[1]
    natural = flash_mla_sparse_fwd(problem.query, problem.kv, problem.indices, problem.sm_scale)[2]
    ratio = lse * reference.LN2 / natural
    assert np.abs(ratio - 1).max() < 1e-5
    assert np.array_equal(lse, prefill(problem, attn_sink=None)[1])


def test_an_engine_can_apply_the_sink_itself(device: int) -> None:
    problem = problems.make(s_q=3, s_kv=80, topk=64, sinks=True, lengths=True)
    problem.attn_sink[[3, 7]] = 20, -20
    expected = expected_of(problem)
    out, lse = prefill(problem, attn_sink=None)
    with np.errstate(over="ignore"):
        factor = 1 / (1 + np.exp2(problem.attn_sink[None, :].astype(np.float64) / reference.LN2 - lse))
    assert np.allclose(reference.from_bf16(out) * factor[:, :, None], expected.out, rtol=2**-7, atol=2e-3)


def test_no_causal_bound(device: int) -> None:
    """Every query may select any row: row 0 looks at the last one."""
    problem = problems.make(s_q=3, s_kv=80, topk=64, invalid=0)
    problem.indices[0] = 79 - np.arange(64) % 8
    out, lse = prefill(problem)
    reference.check_out(out, expected_of(problem))
    assert np.isfinite(lse).all()


def test_topk_past_the_keys_and_lists_of_three_dimensions(device: int) -> None:
    problem = problems.make(s_q=3, s_kv=40, topk=128)
    flat = prefill(problem)
    reference.check_out(flat[0], expected_of(problem))
    problem.indices = problem.indices[:, None, :]
    for a, b in zip(flat, prefill(problem)):
        assert np.array_equal(a, b)


def test_queries_without_keys(device: int) -> None:
    problem = problems.make(s_q=3, s_kv=40, topk=64, sinks=True)
    problem.indices[1] = -1
    problem.topk_length = np.array([64, 64, 0], np.int32)
    out, lse = prefill(problem)
    assert not out[1:].any() and np.isposinf(lse[1:]).all() and np.isfinite(lse[0]).all()


@pytest.mark.parametrize("length", [np.array([1, 2], np.int64), np.array([1], np.int32), np.array([[1, 2]], np.int32)])
def test_lengths_of_another_layout_are_refused(device: int, length: np.ndarray) -> None:
    with pytest.raises(smla.InvalidArgumentError, match="topk_length is"):
        prefill(problems.make(s_q=2, s_kv=40, topk=64), index_length=length)


def test_lengths_are_clamped(device: int) -> None:
    problem = problems.make(s_q=3, s_kv=80, topk=64)
    problem.topk_length = np.array([-5, 1000, 3], np.int32)
    out, lse = prefill(problem)
    reference.check_out(out, expected_of(problem))
    assert np.isposinf(lse[0]).all()


def test_flashinfers_trace(device: int) -> None:
    problem = problems.make(s_q=4, s_kv=192, topk=640, sinks=True, lengths=True)
    out = run(
        problem.query,
        problem.kv[:, None],
        problem.indices,
        problem.topk_length,
        problem.attn_sink,
        np.float32(problem.sm_scale),
    )
    reference.check_out(out, expected_of(problem))
    assert not out[0].any()


# Decode ----------------------------------------------------------------------------------------------------


def load(name: str) -> Dict[str, Any]:
    """A golden vector: tensors as numpy, bf16 as bits, and the metadata."""
    safetensors = pytest.importorskip("safetensors")
    from safetensors.numpy import load_file

    path = CASES / f"{name}.safetensors"
    if not path.exists():
        pytest.skip(f"no {path}: SMLA_CASES names another folder")
    with safetensors.safe_open(str(path), "numpy") as file:
        metadata = file.metadata()
    tensors = {
        key: value.view(np.uint16) if value.dtype.name == "bfloat16" else value
        for key, value in load_file(str(path)).items()
    }
    return {**tensors, **metadata}


GOLDEN = ["d01-v32", "d02-model1-two-caches", "d03-v41-fp4-extra", "d04-v41", "d05-v41-planar"]


def read_scope(case: Dict[str, Any], prefix: str, shape: tuple) -> tuple:
    """(rows, valid) of one cache, by kv_formats alone, in float64."""
    indices = case[f"{prefix}indices"]
    page_size = int(case[f"{prefix}page_size"][0])
    layout = case[f"{prefix}kv_format"]
    rows = reference.from_bf16(kv_formats.gather(case[f"{prefix}KV"], indices, layout, page_size))
    valid = (indices >= 0) & (indices < case[f"{prefix}KV"].shape[0] * page_size)
    if f"{prefix}topk_length" in case:
        valid &= np.arange(indices.shape[-1]) < case[f"{prefix}topk_length"].reshape(-1, 1, 1)
    return rows.reshape(shape + rows.shape[2:]), valid.reshape(shape + valid.shape[2:])


def expected_of_case(case: Dict[str, Any]) -> reference.Expected:
    b, s_q, h, d = case["Q"].shape
    scopes = [read_scope(case, prefix, (b * s_q,)) for prefix in ("", "extra_") if f"{prefix}KV" in case]
    rows, valid = (np.concatenate([scope[i] for scope in scopes], axis=1) for i in range(2))
    return reference.attend(
        reference.from_bf16(case["Q"]).reshape(b * s_q, h, d),
        rows,
        valid,
        float(case["sm_scale"][0]),
        case.get("attn_sink"),
    )


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_caches_are_read_as_their_reference_does(name: str) -> None:
    case = load(name)
    expected = expected_of_case(case)
    wanted = case["O_ref"].reshape(expected.out.shape)
    assert np.abs(expected.out - wanted).max() <= 2e-6 * max(1.0, np.abs(wanted).max())
    lse = case["lse_ref"].reshape(expected.lse.shape)
    assert np.array_equal(np.isposinf(lse), np.isposinf(expected.lse))
    finite = np.isfinite(lse)
    assert np.abs(lse[finite] - expected.lse[finite]).max() < 1e-5


def decode(case: Dict[str, Any], **changes: Any):
    options = dict(
        kv_format=case["kv_format"],
        page_size=int(case["page_size"][0]),
        length=case.get("topk_length"),
        attn_sink=case.get("attn_sink"),
    )
    if "extra_KV" in case:
        options.update(
            extra_kv_cache=case["extra_KV"],
            extra_indices=case["extra_indices"],
            extra_kv_format=case["extra_kv_format"],
            extra_page_size=int(case["extra_page_size"][0]),
            extra_length=case.get("extra_topk_length"),
        )
    options.update(changes)
    query = options.pop("Q", case["Q"])
    return deepinfer.decode_attn_sparse(query, case["KV"], case["indices"], float(case["sm_scale"][0]), **options)


def check_decode(result: tuple, expected: reference.Expected) -> None:
    reference.check_out(result[0], expected)
    reference.check_row_values(result[1], expected.lse, expected, units=8.01, factor=reference.LN2)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_decode(device: int, name: str) -> None:
    case = load(name)
    before = {key: value.copy() for key, value in case.items() if isinstance(value, np.ndarray)}
    result = decode(case)
    assert result[0].shape == case["O_ref"].shape and result[1].shape == case["Q"].shape[:3]
    check_decode(result, expected_of_case(case))
    wanted = before["O_ref"]
    assert np.abs(reference.from_bf16(result[0]) - wanted).max() < 2e-2 * np.abs(wanted).max()
    for key, value in before.items():
        assert np.array_equal(value, case[key], equal_nan=value.dtype.kind == "f"), f"{key} was changed"


def make_case(
    layout: str,
    extra: Optional[str] = None,
    batch: int = 2,
    s_q: int = 1,
    pages: int = 3,
    page_size: int = 32,
    topk: int = 64,
    heads: int = 64,
    seed: int = 0,
) -> Dict[str, Any]:
    random = np.random.default_rng(seed)
    d_qk = kv_formats.kv_format(layout).d_qk
    case: Dict[str, Any] = {
        "Q": reference.to_bf16(random.standard_normal((batch, s_q, heads, d_qk))),
        "sm_scale": np.array([d_qk**-0.5], np.float32),
        "attn_sink": random.standard_normal(heads).astype(np.float32),
        "kv_format": layout,
    }
    for prefix, name in (("", layout), ("extra_", extra)):
        if name is None:
            continue
        case[f"{prefix}kv_format"] = name
        case[f"{prefix}page_size"] = np.array([page_size])
        cache = kv_formats.empty_cache(case["Q"], pages, page_size, name, 576)
        cache[:] = 0x7F
        slots = random.permutation(pages * page_size)[:-5]  # five tokens hold NaN, which nothing selects
        kv_formats.write(cache, slots, reference.to_bf16(random.standard_normal((len(slots), d_qk))), name, page_size)
        case[f"{prefix}KV"] = cache
        indices = random.choice(slots, (batch, s_q, topk)).astype(np.int32)
        indices[random.random(indices.shape) < 0.1] = -1
        case[f"{prefix}indices"] = indices
    return case


@pytest.mark.parametrize(
    "layout, extra, s_q, batch",
    [
        ("v4", "v4", 1, 2),
        ("v41", None, 1, 3),
        ("v41_planar", None, 2, 2),
        ("v41_fp4", None, 1, 1),
        ("v32_norope", None, 1, 2),
        ("v41", "v41_fp4_planar", 2, 1),
    ],
)
def test_decode_shapes(device: int, layout: str, extra: Optional[str], s_q: int, batch: int) -> None:
    case = make_case(layout, extra, batch=batch, s_q=s_q)
    check_decode(decode(case), expected_of_case(case))


def test_lengths_a_request_and_a_token(device: int) -> None:
    case = make_case("v41", batch=2, s_q=3)
    case["topk_length"] = np.array([7, 0], np.int32)
    by_request = decode(case)
    check_decode(by_request, expected_of_case(case))
    assert np.isposinf(by_request[1][1]).all() and not by_request[0][1].any()
    by_token = decode(case, length=np.array([[7, 7, 7], [0, 0, 0]], np.int32))
    assert np.array_equal(by_token[0], by_request[0])
    ragged = decode(case, length=np.array([[7, 64, 900], [-3, 1, 64]], np.int32))
    assert np.array_equal(ragged[0][0, 0], by_request[0][0, 0]) and not ragged[0][1, 0].any() and ragged[0][1, 1].any()
    for wrong in (np.array([7], np.int32), np.array([7, 0], np.int64), np.zeros(6, np.int32)):
        with pytest.raises(smla.InvalidArgumentError, match="length is"):
            decode(case, length=wrong)


def test_flat_tokens_and_out(device: int) -> None:
    case = make_case("v4", batch=3)
    batched = decode(case)
    wide = np.full((3, 1, 70, 512), 9, np.uint16)
    assert decode(case, out=wide[:, :, 3:67])[0].base is wide
    assert np.array_equal(wide[:, :, 3:67], batched[0]) and (wide[:, :, :3] == 9).all() and (wide[:, :, 67:] == 9).all()
    case["Q"], case["indices"] = case["Q"][:, 0], case["indices"][:, 0]
    flat = decode(case)
    assert flat[0].shape == (3, 64, 512) and np.array_equal(flat[0], batched[0][:, 0])
    assert np.array_equal(flat[1], batched[1][:, 0])


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode reads the caches themselves, by the decode kernel: gathering fails, and so does prefill."""
    monkeypatch.setenv(_deepinfer_smla.DIRECT, "1")
    monkeypatch.setattr(kv_formats, "gather", None)
    monkeypatch.setattr(_deepinfer_smla, "prefill", None)


def aligned(case: Dict[str, Any]) -> Dict[str, Any]:
    """The same with caches that start at multiples of 16 bytes."""
    for key in ("KV", "extra_KV"):
        if key in case:
            memory = np.empty(case[key].size + 16, np.uint8)
            start = -memory.ctypes.data % 16
            copy = memory[start : start + case[key].size].reshape(case[key].shape)
            copy[:] = case[key]
            case[key] = copy
    return case


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_decode_without_staging(device: int, name: str, direct: None) -> None:
    case = aligned(load(name))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kv_formats, "gather", GATHER)
        expected = expected_of_case(case)
    check_decode(decode(case), expected)


@pytest.mark.parametrize("layout, extra, s_q, batch", [("v41", "v4", 2, 2), ("hopper_fp4", None, 1, 3)])
def test_decode_without_staging(
    device: int, monkeypatch: pytest.MonkeyPatch, layout: str, extra: Optional[str], s_q: int, batch: int
) -> None:
    """The same contract: lists of three and four dimensions, lengths a request and a token, pages by shape, out."""
    case = aligned(make_case(layout, extra, batch=batch, s_q=s_q))
    case["topk_length"] = np.array([40, 0, 99][:batch], np.int32)
    by_token = np.repeat(case["topk_length"][:, None], s_q, axis=1)
    staged = decode(case)
    expected = expected_of_case(case)
    monkeypatch.setenv(_deepinfer_smla.DIRECT, "1")
    monkeypatch.setattr(kv_formats, "gather", None)
    monkeypatch.setattr(_deepinfer_smla, "prefill", None)
    result = decode(case)
    check_decode(result, expected)
    assert result[0].shape == staged[0].shape and result[1].shape == staged[1].shape
    out = np.zeros_like(result[0])
    case["indices"] = case["indices"][:, :, None]
    again = decode(case, length=by_token, out=out)
    assert again[0] is out and np.array_equal(out, result[0]) and np.array_equal(again[1], result[1])
    with pytest.raises(smla.InvalidArgumentError, match="length is"):
        decode(case, length=by_token[:, :0])
    with pytest.raises(smla.InvalidArgumentError, match="a page of 34 tokens"):
        decode(case, page_size=34)


def test_flat_tokens_and_out_without_staging(device: int, direct: None) -> None:
    """A query of three dimensions; out whose first two dimensions are not one."""
    case = aligned(make_case("v4", batch=3, s_q=2))
    wanted = decode(case)
    wide = np.full((3, 3, 70, 512), 9, np.uint16)
    out = wide[:, :2, 3:67]
    assert decode(case, out=out)[0] is out and np.array_equal(out, wanted[0])
    assert (wide[:, 2] == 9).all() and (wide[:, :, :3] == 9).all()
    case["Q"], case["indices"] = np.ascontiguousarray(case["Q"][:, 0]), case["indices"][:, 0]
    flat = decode(case)
    assert flat[0].shape == (3, 64, 512) and flat[1].shape == (3, 64)
    out = np.zeros((3, 64, 512), np.uint16)
    again = decode(case, out=out)
    assert again[0] is out and np.array_equal(out, flat[0]) and np.array_equal(again[1], flat[1])
    case["Q"], case["indices"] = case["Q"][:, None], case["indices"][:, None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kv_formats, "gather", GATHER)
        expected = expected_of_case(case)
    check_decode((flat[0], flat[1]), expected)
    with pytest.raises(smla.InvalidArgumentError, match="out is"):
        decode(case, out=out)


def test_slots_outside_and_a_cache_without_pages(device: int) -> None:
    case = make_case("v41", batch=1, topk=64)
    case["indices"][0, 0, ::3] = 3 * 32
    case["indices"][0, 0, 1::3] = 2**31 - 1
    check_decode(decode(case), expected_of_case(case))
    case["KV"] = case["KV"][:0]
    out, lse = decode(case)
    assert not out.any() and np.isposinf(lse).all()


@pytest.mark.parametrize("heads", [1, 16, 100, 128])
def test_any_count_of_heads_is_served_as_it_is(device: int, heads: int) -> None:
    case = make_case("v41", batch=1, s_q=2, heads=heads)
    result = decode(case)
    assert result[0].shape == (1, 2, heads, 512) and result[1].shape == (1, 2, heads)
    check_decode(result, expected_of_case(case))


@pytest.mark.parametrize("heads, extra", [(64, None), (16, None), (128, "v32")])
def test_the_cache_of_576(device: int, heads: int, extra: Optional[str]) -> None:
    """float32 scales of any value and sign, not the writer's powers of two alone."""
    case = make_case("v32", extra, batch=2, heads=heads)
    random = np.random.default_rng(1)
    for cache in (case[key] for key in ("KV", "extra_KV") if key in case):
        scales = kv_formats.open_cache(cache, "v32", 32).scales
        size = np.exp(random.uniform(-5, 1, scales.shape[:2] + (4,))) * random.choice([-1, 1], scales.shape[:2] + (4,))
        scales[:] = (size / 448).astype(np.float32).view(np.uint8)
    check_decode(decode(case), expected_of_case(case))


def test_what_decode_has_no_kernel_for(device: int) -> None:
    case = make_case("v41", batch=1)
    with pytest.raises(smla.InvalidArgumentError, match="h_q 129: query heads are 1 to 128"):
        decode(case, Q=np.zeros((1, 1, 129, 512), np.uint16), attn_sink=None)
    with pytest.raises(smla.InvalidArgumentError, match="kv format v41 has 512"):
        decode(case, Q=np.zeros((1, 1, 64, 576), np.uint16))
    with pytest.raises(smla.InvalidArgumentError, match="kv format 'v99'"):
        decode(case, kv_format="v99")
