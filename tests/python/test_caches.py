"""smla.prefill over caches of any format, in pages and two at once, against float64 over what kv_formats gathers."""

import dataclasses
import os
import pathlib
from typing import Any, Dict, Optional, Tuple

import numpy as np
import pytest

import reference
import smla
from smla import kv_formats
from smla.kv_formats import KvFormat

ml_dtypes = pytest.importorskip("ml_dtypes")
CASES = pathlib.Path(os.environ.get("SMLA_CASES", pathlib.Path(__file__).resolve().parents[3] / "shared" / "cases"))
HEADS, S_Q, TOPK = 8, 3, 96


@dataclasses.dataclass
class Cache:
    """One cache of a call: its bytes in pages, its lists, and what it holds."""

    row: KvFormat
    pages: np.ndarray  # [pages, bytes a page] uint8, a gap behind each
    tokens: int
    indices: np.ndarray
    length: Optional[np.ndarray]

    def gathered(self) -> Tuple[np.ndarray, np.ndarray]:
        slots = len(self.pages) * self.tokens
        valid = (self.indices >= 0) & (self.indices < slots)
        if self.length is not None:
            valid &= np.arange(self.indices.shape[1]) < self.length[:, None]
        return reference.from_bf16(kv_formats.gather(self.pages, self.indices, self.row, self.tokens)), valid


def aligned(shape: Tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
    """Zeros from a 16-byte boundary."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 16, np.uint8)
    start = -memory.ctypes.data % 16
    return memory[start : start + size].view(dtype).reshape(shape)


def make_cache(row: KvFormat, tokens: int, gap: int = 0, seed: int = 0, pages: int = 0, topk: int = TOPK) -> Cache:
    """Pages with a gap behind each, up to 16-byte strides. Written rows at random slots, the rest all NaN; the lists
    select written ones and numbers that are no slot."""
    random = np.random.default_rng(seed)
    pages = pages or max(2, 200 // tokens)
    cache = aligned((pages, -(-(row.page_bytes(tokens) + gap) // 16) * 16))
    cache[:] = 0x7F
    slots = random.permutation(pages * tokens)[: max(1, pages * tokens * 3 // 4)].astype(np.int32)
    rows = random.standard_normal((len(slots), row.d_qk)) * np.exp(random.uniform(-2, 1, (len(slots), 1)))
    kv_formats.write(cache, slots, reference.to_bf16(rows), row, tokens)
    indices = random.choice(slots, (S_Q, topk)).astype(np.int32)
    wrong = random.random(indices.shape) < 0.1
    indices[wrong] = random.choice(np.array([-1, -(2**31), pages * tokens, 2**31 - 1]), wrong.sum())
    length = np.array([topk + 5, 0, topk // 2], np.int32)[:S_Q]
    return Cache(row, cache, tokens, indices, length)


def make_query(d_qk: int, seed: int = 9) -> Dict[str, Any]:
    random = np.random.default_rng(seed)
    query = aligned((S_Q, HEADS, d_qk), np.uint16)
    query[:] = reference.to_bf16(random.standard_normal(query.shape))
    return dict(query=query, sm_scale=d_qk**-0.5, attn_sink=random.standard_normal(HEADS).astype(np.float32))


def expected(call: Dict[str, Any], *caches: Cache) -> reference.Expected:
    rows, valid = (np.concatenate(part, axis=1) for part in zip(*(cache.gathered() for cache in caches)))
    return reference.attend(
        reference.from_bf16(call["query"]), rows, valid, float(call["sm_scale"]), call["attn_sink"], 512
    )


def first(cache: Cache, **changes: Any) -> Dict[str, Any]:
    return {
        **dict(kv=cache.pages, indices=cache.indices, topk_length=cache.length),
        **dict(kv_format=cache.row, kv_page_tokens=cache.tokens),
        **changes,
    }


def second(cache: Cache, **changes: Any) -> Dict[str, Any]:
    return {**{f"extra_{name}": value for name, value in first(cache).items()}, **changes}


def run_and_check(call: Dict[str, Any], arguments: Dict[str, Any], *caches: Cache) -> tuple:
    before = {name: value.copy() for name, value in arguments.items() if isinstance(value, np.ndarray)}
    result = smla.prefill(**call, **arguments)
    reference.check(result, expected(call, *caches))
    for name, value in before.items():
        assert np.array_equal(value.view(np.uint8), arguments[name].view(np.uint8)), f"{name} was changed"
    return result


def same(a: tuple, b: tuple) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b))


def bf16(d_qk: int) -> KvFormat:
    return smla.kv_layout("bf16", d_qk)


# Layouts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", kv_formats.FORMATS)
def test_layouts_are_the_librarys(name: str) -> None:
    row = kv_formats.FORMATS[name]
    assert smla.kv_layout(name, row.d_qk) == row
    with pytest.raises(smla.UnsupportedError, match=name):
        smla.kv_layout(name, 1088 - row.d_qk)


def test_the_layout_of_bf16_and_of_nothing() -> None:
    assert smla.kv_layout("bf16", 576) == KvFormat("bf16", 576, "bf16", 0, "none", "token")
    with pytest.raises(smla.InvalidArgumentError, match="v99"):
        smla.kv_layout("v99", 512)


@pytest.mark.parametrize("d_qk", [512, 576])
def test_bf16_is_written_and_gathered(d_qk: int) -> None:
    cache = make_cache(bf16(d_qk), 3, gap=32)
    rows = np.arange(2 * d_qk, dtype=np.uint16).reshape(2, d_qk)
    kv_formats.write(cache.pages, np.array([4, 0]), rows, cache.row, 3)
    assert np.array_equal(kv_formats.gather(cache.pages, np.array([4, 0]), cache.row, 3), rows)


# Formats ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", kv_formats.FORMATS)
def test_presets(device: int, name: str) -> None:
    """By name, in pages with a gap; then with no gap, in each shape and type that says the same."""
    row = kv_formats.FORMATS[name]
    call = make_query(row.d_qk)
    cache = make_cache(row, 64, gap=48)
    run_and_check(call, first(cache, kv_format=name), cache)
    cache = make_cache(row, 64)
    result = run_and_check(call, first(cache, kv_format=name), cache)
    shaped = cache.pages.reshape(-1, 64, 1, row.token_bytes)
    for kv in (shaped, shaped[:, :, 0], shaped.view(np.int8), shaped.view(ml_dtypes.float8_e4m3fn)):
        assert same(result, smla.prefill(**call, **first(cache, kv=kv, kv_format=name, kv_page_tokens=None)))
    if row.place == "token":
        flat = cache.pages.reshape(-1, row.token_bytes)
        assert same(result, smla.prefill(**call, **first(cache, kv=flat, kv_page_tokens=None)))


@pytest.mark.parametrize("tokens", [1, 2, 53, 64])
@pytest.mark.parametrize("name", ["v4", "v41", "v41_fp4_planar", "bf16"])
def test_pages_of_each_size(device: int, name: str, tokens: int) -> None:
    row = kv_formats.FORMATS.get(name) or bf16(512)
    call, cache = make_query(512), make_cache(row, tokens, gap=80)
    kv = cache.pages.view(np.uint16) if name == "bf16" else cache.pages
    run_and_check(call, first(cache, kv=kv, kv_format=name), cache)


def test_pages_in_a_pool_of_layers(device: int) -> None:
    """The stride between pages is another layer's bytes away."""
    row = kv_formats.FORMATS["v4"]
    call, cache = make_query(512), make_cache(row, 32)
    pool = aligned((len(cache.pages), 3, cache.pages.shape[1]))
    pool[:] = 0xFF
    pool[:, 1] = cache.pages
    cache.pages = pool[:, 1]
    run_and_check(call, first(cache), cache)
    shaped = np.lib.stride_tricks.as_strided(
        cache.pages, (len(pool), 32, 1, row.token_bytes), (pool.strides[0], row.token_bytes, 1, 1)
    )
    run_and_check(call, first(cache, kv=shaped, kv_page_tokens=None), cache)


def test_tokens_with_gaps(device: int) -> None:
    """Of a format placed by token: strides of pages and of tokens are both free."""
    row = kv_formats.FORMATS["v41"]
    call, cache = make_query(512), make_cache(row, 5)
    wide = aligned((len(cache.pages), 7, 2, 544))
    wide[:] = 0xFF
    wide[:, :5, 1, :528] = cache.pages.reshape(-1, 5, 528)
    run_and_check(call, first(cache, kv=wide[:, :5, 1:, :528], kv_page_tokens=5), cache)
    rows = aligned((len(cache.pages) * 5, 544))
    rows[:, :528] = cache.pages.reshape(-1, 528)
    run_and_check(call, first(cache, kv=rows[:, :528], kv_page_tokens=None), cache)


@pytest.mark.parametrize("d_qk", [512, 576])
def test_bf16_in_pages(device: int, d_qk: int) -> None:
    call, cache = make_query(d_qk), make_cache(bf16(d_qk), 7, gap=160)
    elements = cache.pages.view(np.uint16)
    result = run_and_check(call, first(cache, kv=elements, kv_format=None), cache)
    strides = (2 * elements.shape[1], 2 * d_qk, 2, 2)
    shaped = np.lib.stride_tricks.as_strided(elements, (len(elements), 7, 1, d_qk), strides)
    for kv, tokens in ((shaped, None), (shaped, 7), (shaped[:, :, 0], 7), (shaped.view(ml_dtypes.bfloat16), None)):
        other = dict(call, query=call["query"].view(kv.dtype))
        again = smla.prefill(**other, **first(cache, kv=kv, kv_format="bf16", kv_page_tokens=tokens))
        assert np.array_equal(again[0].view(np.uint16), result[0]) and same(again[1:], result[1:])


def test_words_of_a_layout() -> None:
    for wrong in (dict(values="e5m2"), dict(scale="f16"), dict(place="row")):
        ((field, word),) = wrong.items()
        with pytest.raises(smla.InvalidArgumentError, match=f"kv format v41: {field} '{word}' is none of"):
            dataclasses.replace(kv_formats.FORMATS["v41"], **wrong)


OWN = {
    "e2m1, f32 scales, long tail, by page": KvFormat("own", 384, "e2m1", 128, "f32", "page", tail=128),
    "e4m3, e4m3 scales, padded": KvFormat("own", 192, "e4m3", 32, "e4m3", "token", scale_pad=10, tail=384),
    "e4m3, one scale a token": KvFormat("own", 512, "e4m3", 512, "ue8m0", "page", scale_pad=2),
}


@pytest.mark.parametrize("name", OWN)
def test_a_layout_of_ones_own(device: int, name: str) -> None:
    call, cache = make_query(OWN[name].d_qk), make_cache(OWN[name], 33, gap=4)
    smla.prepare(HEADS, OWN[name].d_qk, kv_format=OWN[name])
    run_and_check(call, first(cache), cache)
    assert smla.query_support(HEADS, OWN[name].d_qk, kv_format=OWN[name], target="90").supported


def test_a_layout_equal_to_a_preset_gives_its_bits(device: int) -> None:
    call, cache = make_query(512), make_cache(smla.kv_layout("v41_planar", 512), 53)
    mine = dataclasses.replace(cache.row, name="mine")
    named, own = (smla.prefill(**call, **first(cache, kv_format=row)) for row in ("v41_planar", mine))
    assert same(named, own)


# Two caches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one, tokens, two, extra_tokens",
    [("v4", 64, "v4", 2), ("v41", 16, "v41_fp4", 64), ("v32", 64, "v32", 1), ("v41_fp4_planar", 53, "bf16", 5)],
)
def test_two_caches(device: int, one: str, tokens: int, two: str, extra_tokens: int) -> None:
    row = kv_formats.FORMATS[one]
    a = make_cache(row, tokens, gap=16, seed=1)
    b = make_cache(kv_formats.FORMATS.get(two) or bf16(512), extra_tokens, gap=32, seed=2, topk=40)
    call = make_query(row.d_qk)
    extra_kv = b.pages.view(np.uint16) if two == "bf16" else b.pages
    smla.prepare(HEADS, row.d_qk, kv_format=one, extra_kv_format=two)
    arguments = {**first(a, kv_format=one), **second(b, extra_kv=extra_kv, extra_kv_format=two)}
    result = run_and_check(call, arguments, a, b)
    if one == two:
        arguments["extra_kv_format"] = None
        assert same(result, smla.prefill(**call, **arguments))


def test_two_caches_of_bf16_in_rows(device: int) -> None:
    call = make_query(512)
    a, b = make_cache(bf16(512), 1, seed=1), make_cache(bf16(512), 1, seed=2, topk=33)
    kv, extra_kv = (cache.pages.view(np.uint16) for cache in (a, b))
    arguments = dict(kv=kv[:, None], indices=a.indices, topk_length=a.length)
    arguments.update(extra_kv=extra_kv, extra_indices=b.indices[:, None], extra_topk_length=b.length)
    run_and_check(call, arguments, a, b)


def test_caches_without_pages(device: int) -> None:
    row = kv_formats.FORMATS["v41_planar"]
    call, a, b = make_query(512), make_cache(row, 4, seed=1), make_cache(row, 4, seed=2)
    a.pages = a.pages[:0]
    run_and_check(call, {**first(a), **second(b)}, a, b)
    b.pages = b.pages[:0]
    out, top, lse = run_and_check(call, {**first(a), **second(b)}, a, b)
    assert not out.any() and np.isposinf(lse).all() and np.isneginf(top).all()


# Golden vectors --------------------------------------------------------------------------------------------


def load(name: str) -> Dict[str, Any]:
    """A golden vector: tensors as numpy, bf16 as bits, and the metadata."""
    safetensors = pytest.importorskip("safetensors")
    from safetensors.numpy import load_file

    path = CASES / f"{name}.safetensors"
    if not path.exists():
        pytest.skip(f"no {path}: SMLA_CASES names another folder")
    with safetensors.safe_open(str(path), "numpy") as file:
        metadata = file.metadata()
    tensors = load_file(str(path))
    bits = {key: value.view(np.uint16) for key, value in tensors.items() if value.dtype.name == "bfloat16"}
    return {**tensors, **bits, **metadata}


def golden_cache(case: Dict[str, Any], prefix: str) -> Cache:
    """Lists and lengths of a request are those of each of its tokens: b * s_q queries."""
    b, s_q, topk = case[f"{prefix}indices"].shape
    pages = aligned(case[f"{prefix}KV"].shape)
    pages[:] = case[f"{prefix}KV"]
    length = case.get(f"{prefix}topk_length")
    return Cache(
        kv_formats.kv_format(case[f"{prefix}kv_format"]),
        pages,
        int(case[f"{prefix}page_size"][0]),
        case[f"{prefix}indices"].reshape(b * s_q, topk),
        None if length is None else np.repeat(length, s_q),
    )


@pytest.mark.parametrize("name", ["d01-v32", "d02-model1-two-caches", "d03-v41-fp4-extra", "d04-v41", "d05-v41-planar"])
def test_golden_caches(device: int, name: str) -> None:
    case = load(name)
    b, s_q, heads, d_qk = case["Q"].shape
    caches = [golden_cache(case, prefix) for prefix in ("", "extra_") if f"{prefix}KV" in case]
    call = dict(query=case["Q"].reshape(b * s_q, heads, d_qk), sm_scale=float(case["sm_scale"][0]))
    call["attn_sink"] = case.get("attn_sink")
    arguments = {**first(caches[0]), **(second(caches[1]) if len(caches) > 1 else {})}
    out, _, lse = run_and_check(call, arguments, *caches)
    wanted = case["O_ref"].reshape(out.shape)
    assert np.abs(reference.from_bf16(out) - wanted).max() < 2e-2 * np.abs(wanted).max()
    finite = np.isfinite(case["lse_ref"].reshape(lse.shape))
    assert np.array_equal(finite, np.isfinite(lse))
    assert np.abs(lse[finite] - case["lse_ref"].reshape(lse.shape)[finite]).max() < 1e-4


# What does not fit -----------------------------------------------------------------------------------------


def cache_of(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    return aligned(shape, dtype)


@pytest.mark.parametrize(
    "changes, words",
    [
        # D5: the bytes of another format, or none
        (dict(kv=cache_of(4, 64, 1, 584)), r"kv is \[4, 64, 1, 584\] u8: v41 has 528 bytes a token; \[pages, page_tok"),
        (dict(kv=cache_of(4, 64, 656)), "v41 has 528 bytes a token"),
        (dict(kv=cache_of(200, 656)), r"v41 has 528 bytes a token; .* or \[s_kv, 528\] u8 is needed"),
        (dict(kv=cache_of(200, 528), kv_format="v41_fp4"), "v41_fp4 has 288 bytes a token"),
        (dict(kv=cache_of(4, 64, 2, 528)), r"\[pages, page_tokens, 1, 528\]"),
        (dict(kv=cache_of(4, 33791), kv_page_tokens=64), "a page of 64 tokens, 33792;"),
        (dict(kv=cache_of(528)), r"kv is \[528\] u8: v41 has 528 bytes"),
        (dict(kv=cache_of(200, 1, 512, dtype=np.uint16)), r"kv is .*u16: v41 has 528 bytes a token"),
        (dict(kv=cache_of(200, 132, dtype=np.float32)), r"kv is .*f32: v41 has 528 bytes a token"),
        (dict(kv=cache_of(200, 528), kv_format=None), r"a quantised cache comes with its kv_format"),
        (dict(kv=cache_of(4, 64, 1, 512), kv_format=None), "bf16 has 512 elements a token.* bf16 is needed"),
        (dict(kv=cache_of(4, 64, 1, 576, dtype=np.uint16), kv_format=None), "bf16 has 512 elements a token"),
        # E2: a format placed by page needs its pages
        (dict(kv=cache_of(200, 528), kv_format="v41_planar"), "scales stand behind .*with kv_page_tokens u8 is needed"),
        (dict(kv=cache_of(4, 8, 1, 544)[..., :528], kv_format="v41_planar"), "its tokens have stride 544.*one run"),
        (dict(kv=cache_of(4, 64, 1, 528), kv_page_tokens=32), "kv_page_tokens is 32: .* says 64 tokens a page"),
        (dict(kv_page_tokens=0), "kv_page_tokens is 0: 1 to"),
        (dict(kv=cache_of(4, 64, 1, 1056)[..., ::2]), "kv: its last dimension has stride 2"),
        # formats
        (dict(kv_format="v5"), "v5"),
        (dict(kv_format=41), "kv_format is a int: give a preset's name or a smla.kv_formats.KvFormat"),
        # the second cache
        (dict(extra_kv=cache_of(4, 528)), "extra_indices is missing: a second cache comes as extra_kv with"),
        (dict(extra_indices=np.zeros((2, 4), np.int32)), "extra_kv is missing"),
        (dict(extra_kv_format="v41"), "extra_kv is missing"),
        (dict(extra_kv=cache_of(4, 584), extra_indices=np.zeros((2, 4), np.int32)), "extra_kv is .*v41 has 528 bytes"),
        (
            dict(extra_kv=cache_of(4, 584), extra_indices=np.zeros((2, 4), np.int32), extra_kv_format="v4"),
            "with extra_kv_page_tokens u8",
        ),
        (dict(extra_kv=cache_of(4, 528), extra_indices=np.zeros((3, 4), np.int32)), r"extra_indices is \[3, 4\]"),
        (dict(extra_kv=cache_of(4, 528), extra_indices=np.zeros((2, 4), np.int64)), "extra_indices is .*i64"),
        (
            dict(
                extra_kv=cache_of(4, 528),
                extra_indices=np.zeros((2, 4), np.int32),
                extra_topk_length=np.zeros(3, np.int32),
            ),
            r"extra_topk_length is \[3\]",
        ),
        # what the library says
        (dict(kv=cache_of(4, 1, 1, 531)[..., :528]), "kv_stride_token 531: this kernel needs a multiple of 16"),
        (
            dict(kv=cache_of(4, 2 * 528 + 8), kv_page_tokens=2),
            "kv_stride_page 1064: this kernel needs a multiple of 16",
        ),
    ],
)
def test_what_does_not_fit_is_named(device: int, changes: Dict[str, Any], words: str) -> None:
    usual = dict(query=aligned((2, HEADS, 512), np.uint16), sm_scale=0.1, indices=np.zeros((2, 8), np.int32))
    usual.update(kv=cache_of(4, 64, 1, 528), kv_format="v41")
    with pytest.raises(smla.InvalidArgumentError, match=words):
        smla.prefill(**{**usual, **changes})


def test_what_has_no_kernel_is_named(device: int) -> None:
    query, indices = aligned((2, HEADS, 576), np.uint16), np.zeros((2, 8), np.int32)
    with pytest.raises(smla.UnsupportedError, match="v41"):
        smla.prefill(query, cache_of(4, 64, 1, 528), indices, 0.1, kv_format="v41")
    with pytest.raises(
        smla.UnsupportedError, match=r"one key/value head.*\(or, with kv_page_tokens, the tokens of a page"
    ):
        smla.prefill(query, cache_of(4, 64, 576, dtype=np.uint16), indices, 0.1)
    own = KvFormat("own", 512, "e4m3", 24, "ue8m0", "token")
    with pytest.raises(smla.InvalidArgumentError, match="scale_group 24"):
        smla.prepare(HEADS, 512, kv_format=own)
    support = smla.query_support(HEADS, 576, kv_format="v41", target="90")
    assert not support.supported and "v41" in support.reason
