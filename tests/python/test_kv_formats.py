"""The quantised caches: golden vectors, every code, writers against the definition, layouts."""

import numpy as np
import pytest

import kv_rows
import reference
from smla import kv_formats
from smla._formats_numpy import E2M1_VALUES, NumpyOps, _encode_e4m3, _table, e4m3_table, ue8m0_table

ml_dtypes = pytest.importorskip("ml_dtypes")


def test_e4m3_is_ml_dtypes() -> None:
    codes = np.arange(256, dtype=np.uint8)
    assert np.array_equal(
        np.array(e4m3_table(), np.float32), codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32), equal_nan=True
    )
    values = np.random.default_rng(0).uniform(-448, 448, 200000).astype(np.float32)
    values[:1000] *= np.float32(2.0**-12)
    table = np.sort(np.array(e4m3_table(), np.float32)[:127])
    ties = ((table[1:] + table[:-1]) / 2).astype(np.float32)
    for part in (values, table, ties, -ties, np.nextafter(ties, np.float32(1e9)), np.nextafter(ties, np.float32(0))):
        assert np.array_equal(_encode_e4m3(part), part.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
    assert list(_encode_e4m3(np.array([np.inf, -1e9, np.nan], np.float32))) == [0x7E, 0xFE, 0x7F]


def test_ue8m0_is_ml_dtypes() -> None:
    codes = np.arange(256, dtype=np.uint8)
    assert np.array_equal(_table("ue8m0"), codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32), equal_nan=True)
    assert len(ue8m0_table()) == 256


def test_e2m1_is_nearest_even_and_saturates() -> None:
    values = np.concatenate([np.linspace(-8, 8, 6401), [np.inf, -0.0]]).astype(np.float32)
    wanted = np.clip(values, -6, 6).astype(ml_dtypes.float4_e2m1fn).astype(np.float32)
    pairs = np.stack([values, values], axis=-1)[:, None, :]
    codes = NumpyOps.encode_values(pairs, "e2m1")
    got = NumpyOps.decode_values(codes, "e2m1")
    assert np.array_equal(got[:, 0], wanted) and np.array_equal(got[:, 1], wanted)
    assert list(NumpyOps.decode_values(np.array([[0x10, 0x32, 0x54, 0x76]], np.uint8), "e2m1")[0]) == list(E2M1_VALUES)


def rows_for(layout: str, count: int, seed: int = 0) -> np.ndarray:
    row = kv_formats.kv_format(layout)
    random = np.random.default_rng(seed)
    return reference.to_bf16(random.standard_normal((count, row.d_qk)) * np.exp(random.uniform(-9, 3, (count, 1))))


@pytest.mark.parametrize("layout", kv_formats.FORMATS)
@pytest.mark.parametrize("page_size, align", [(64, 1), (2, 576), (53, 512)])
def test_written_tokens_are_read_back(layout: str, page_size: int, align: int) -> None:
    row = kv_formats.kv_format(layout)
    cache = kv_formats.empty_cache(np.empty(0), 4, page_size, layout, align)
    cache[:] = 0x7F
    slots = np.random.default_rng(1).permutation(4 * page_size)[:7].astype(np.int32)
    rows = rows_for(layout, 7)
    kv_formats.write(cache, slots, rows, layout, page_size)
    got = reference.from_bf16(kv_formats.gather(cache, slots, layout, page_size))
    wanted = reference.from_bf16(rows)
    body = slice(0, row.elements)
    amax = np.abs(wanted[:, body].reshape(7, row.groups, row.group)).max(axis=2).repeat(row.group, axis=1)
    step = amax / 16 if row.values == "e4m3" else amax / 4
    floor = 448e-4 / 16 if row.scale != "e4m3" else 6 * 2.0**-9
    assert (np.abs(got[:, body] - wanted[:, body]) <= np.maximum(step, floor)).all()
    assert np.array_equal(got[:, row.elements :], wanted[:, row.elements :])
    touched = int((cache != 0x7F).sum())
    assert touched <= 7 * row.token_bytes
    twice = kv_formats.gather(cache, slots.reshape(7, 1), layout, page_size)
    assert twice.shape == (7, 1, row.d_qk)


@pytest.mark.parametrize(
    "layout, offsets",
    [
        ("v32", (0, 512, 528)),
        ("v32_norope", (0, 512, None)),
        ("v4", (0, 64 * 576, 448)),
        ("v41", (0, 512, None)),
        ("v41_planar", (0, 64 * 512, None)),
        ("v41_fp4", (0, 256, None)),
        ("v41_fp4_planar", (0, 64 * 256, None)),
        ("hopper_fp4", (0, 224, 256)),
    ],
)
def test_where_things_lie(layout: str, offsets: tuple) -> None:
    """Token 0 of a page of 64: its values, scales and tail at the bytes that interface.md gives."""
    row = kv_formats.kv_format(layout)
    view = kv_formats.open_cache(np.zeros((2, 64 * row.token_bytes), np.uint8), layout, 64)
    base = view.values.__array_interface__["data"][0]
    assert view.scales.__array_interface__["data"][0] - base == offsets[1]
    if offsets[2] is not None:
        assert view.tail.__array_interface__["data"][0] - base == offsets[2]
    sizes = {
        "v32": 656,
        "v32_norope": 528,
        "v4": 584,
        "v41": 528,
        "v41_planar": 528,
        "v41_fp4": 288,
        "v41_fp4_planar": 288,
        "hopper_fp4": 384,
    }
    assert row.token_bytes == sizes[layout]


@pytest.mark.parametrize("layout", kv_formats.FORMATS)
def test_scales_are_the_writers(layout: str) -> None:
    """Against the definition, computed here in float64."""
    row = kv_formats.kv_format(layout)
    rows = rows_for(layout, 50, seed=3)
    rows[0] = 0
    cache = kv_formats.empty_cache(np.empty(0), 1, 50, layout)
    kv_formats.write(cache, np.arange(50), rows, layout, 50)
    view = kv_formats.open_cache(cache, layout, 50)
    amax = np.abs(reference.from_bf16(rows)[:, : row.elements].reshape(50, row.groups, row.group)).max(axis=2)
    if row.scale == "e4m3":
        wanted = np.clip(amax / 6, 2.0**-9, 448).astype(np.float32).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    else:
        wanted = np.exp2(np.ceil(np.log2(np.maximum(amax / 448, 1e-4))))
    assert np.array_equal(NumpyOps.decode_scales(view.scales[0], row.scale).astype(np.float64), wanted)


@pytest.mark.parametrize("layout", kv_formats.FORMATS)
def test_a_nan_stays_in_its_group(layout: str) -> None:
    row = kv_formats.kv_format(layout)
    rows = rows_for(layout, 1)
    rows[0, 5] = 0x7FC0
    cache = kv_formats.empty_cache(np.empty(0), 1, 2, layout)
    kv_formats.write(cache, np.array([1]), rows, layout, 2)
    got = reference.from_bf16(kv_formats.gather(cache, np.array([1]), layout, 2))[0]
    assert np.isnan(got[: row.group]).all() and np.isfinite(got[row.group :]).all()


def test_bytes_are_those_of_the_shared_file() -> None:
    """Which tests/tools/kv_codec_test.c holds against the C writer and reader."""
    load_file = pytest.importorskip("safetensors.numpy").load_file
    kept = load_file(str(kv_rows.PATH))
    assert np.array_equal(kept.pop("slots"), kv_rows.SLOTS)
    made = kv_rows.written(kept.pop("rows"))
    assert sorted(made) == sorted(kept)
    for name, value in made.items():
        assert np.array_equal(kept[name], value), name


def test_arbitrary_float_scales_are_read() -> None:
    cache = np.zeros((1, 528), np.uint8)
    cache[0, :512] = 0x38  # 1.0
    cache[0, 512:] = np.array([0.3, -2.5, 1e-20, 7e20], np.float32).view(np.uint8)
    got = kv_formats.gather(cache, np.array([0]), "v32_norope", 1)[0, ::128]
    assert np.array_equal(got, reference.to_bf16(np.array([0.3, -2.5, 1e-20, 7e20], np.float32)))


def test_shapes_of_flash_mla_and_page_strides() -> None:
    row = kv_formats.kv_format("v4")
    padded = np.zeros((3, 2 * 1728), np.uint8)
    slots = np.arange(6)
    rows = rows_for("v4", 6)
    pages = padded[:, :1168]
    kv_formats.write(pages, slots, rows, "v4", 2)
    shaped = np.lib.stride_tricks.as_strided(padded, (3, 2, 1, 584), (3456, 584, 584, 1)).view(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(kv_formats.gather(shaped, slots, "v4"), kv_formats.gather(pages, slots, "v4", 2))
    assert not padded[:, 1168:].any() and row.page_bytes(2) == 1168


@pytest.mark.parametrize(
    "cache, layout, page_size, words",
    [
        (np.zeros((2, 100), np.uint8), "v41", 64, "a page has 100 bytes"),
        (np.zeros((2, 100), np.uint8), "v5", 64, "one of v32"),
        (np.zeros((2, 100), np.uint8), "v41", None, "page_size None"),
        (np.zeros((2, 64, 1, 584), np.uint8), "v41", None, r"\[pages, page_size, 1, 528\]"),
        (np.zeros((2, 64, 1, 528), np.uint8), "v41", 32, "page_size 32"),
        (np.zeros((2, 64, 1, 528), np.float32), "v41", None, "bytes are needed"),
    ],
)
def test_what_does_not_fit_is_named(cache: np.ndarray, layout: str, page_size: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kv_formats.gather(cache, np.array([0]), layout, page_size)
