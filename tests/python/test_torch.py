"""The same with torch, where it is installed: CPU tensors through the emulated device, formats bit for bit as
numpy's."""

import numpy as np
import pytest

import problems
import reference
from smla import deepinfer, kv_formats
from smla.flash_mla import flash_mla_sparse_fwd, flash_mla_with_kvcache, get_mla_metadata

torch = pytest.importorskip("torch")


def tensor(array: np.ndarray) -> "torch.Tensor":
    return (
        torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        if array.dtype == np.uint16
        else torch.from_numpy(array)
    )


def bits(value: "torch.Tensor") -> np.ndarray:
    return value.view(torch.int16).numpy().view(np.uint16) if value.dtype == torch.bfloat16 else value.numpy()


def test_prefill_gives_torch_and_the_same_bits(device: int) -> None:
    problem = problems.make(s_q=3, s_kv=64, topk=64, sinks=True, lengths=True)
    arguments = (problem.query, problem.kv[:, None], problem.indices[:, None], problem.sm_scale)
    expected = flash_mla_sparse_fwd(*arguments, attn_sink=problem.attn_sink, topk_length=problem.topk_length)
    result = flash_mla_sparse_fwd(
        *(tensor(a) for a in arguments[:3]),
        problem.sm_scale,
        attn_sink=tensor(problem.attn_sink),
        topk_length=tensor(problem.topk_length),
    )
    for got, wanted in zip(result, expected):
        assert isinstance(got, torch.Tensor) and np.array_equal(bits(got), wanted)


def test_flash_mla_decode_gives_torch_and_the_same_bits(device: int) -> None:
    """A cache of float8_e4m3fn, out a view; lse a transposed view of a contiguous buffer."""
    random = np.random.default_rng(0)
    query = reference.to_bf16(random.standard_normal((2, 3, 64, 512)))
    pages = kv_formats.empty_cache(query, 3, 32, "v4", 576)
    kv_formats.write(pages, np.arange(96), reference.to_bf16(random.standard_normal((96, 512))), "v4", 32)
    indices = random.integers(-1, 96, (2, 3, 64)).astype(np.int32)
    length, sink = np.array([0, 40], np.int32), random.standard_normal(64).astype(np.float32)
    cache = torch.from_numpy(pages)
    shaped = cache.view(torch.float8_e4m3fn).as_strided((3, 32, 1, 584), (pages.shape[1], 584, 584, 1))
    as_numpy = np.lib.stride_tricks.as_strided(pages, (3, 32, 1, 584), (pages.strides[0], 584, 584, 1))
    options = dict(is_fp8_kvcache=True)
    wanted = flash_mla_with_kvcache(
        query,
        as_numpy,
        None,
        None,
        512,
        get_mla_metadata()[0],
        indices=indices,
        attn_sink=sink,
        topk_length=length,
        **options,
    )
    out = torch.full((2, 3, 80, 512), 7.0, dtype=torch.bfloat16)
    got = flash_mla_with_kvcache(
        tensor(query),
        shaped,
        None,
        None,
        512,
        get_mla_metadata()[0],
        indices=tensor(indices),
        attn_sink=tensor(sink),
        topk_length=tensor(length),
        out=out[:, :, 8:72],
        **options,
    )
    assert np.array_equal(bits(got[0].contiguous()), wanted[0]) and np.array_equal(bits(got[1]), wanted[1])
    assert (
        got[0].data_ptr() == out[:, :, 8:72].data_ptr() and (out[:, :, :8] == 7).all() and (out[:, :, 72:] == 7).all()
    )
    assert got[1].shape == (2, 64, 3) and got[1].transpose(1, 2).is_contiguous()


def test_strided_out(device: int) -> None:
    problem = problems.make(s_q=3, s_kv=64, topk=64)
    out = torch.full((3, 80, 512), 7.0, dtype=torch.bfloat16)
    result = flash_mla_sparse_fwd(
        tensor(problem.query), tensor(problem.kv), tensor(problem.indices), problem.sm_scale, out=out[:, 8:72]
    )
    assert result[0].data_ptr() == out[:, 8:72].data_ptr()
    reference.check_out(
        bits(out[:, 8:72].contiguous()), reference.prefill(problem.query, problem.kv, problem.indices, problem.sm_scale)
    )
    assert (out[:, :8] == 7).all() and (out[:, 72:] == 7).all()


@pytest.mark.parametrize("layout", kv_formats.FORMATS)
def test_formats_are_numpys_bit_for_bit(layout: str) -> None:
    row = kv_formats.kv_format(layout)
    random = np.random.default_rng(0)
    rows = reference.to_bf16(random.standard_normal((200, row.d_qk)) * np.exp(random.uniform(-12, 9, (200, 1))))
    rows[0], rows[1, 3], rows[2, :16] = 0, 0x7FC0, 0x8000
    slots = random.permutation(4 * 53)[:200].astype(np.int32)
    cache = kv_formats.empty_cache(rows, 4, 53, layout, 512)
    same = torch.zeros(cache.shape, dtype=torch.uint8)
    kv_formats.write(cache, slots, rows, layout, 53)
    kv_formats.write(same, tensor(slots), tensor(rows), layout, 53)
    # A NaN value's sign is not part of the format.
    nan = (cache & 0x7F) == 0x7F
    assert np.array_equal(cache[~nan], same.numpy()[~nan]) and ((same.numpy()[nan] & 0x7F) == 0x7F).all()
    got = bits(kv_formats.gather(torch.from_numpy(cache), tensor(slots), layout, 53))
    assert np.array_equal(
        reference.from_bf16(got), reference.from_bf16(kv_formats.gather(cache, slots, layout, 53)), equal_nan=True
    )
    cache[:] = np.random.default_rng(1).integers(0, 256, cache.shape)
    every = np.arange(4 * 53).astype(np.int32)
    with np.errstate(all="ignore"):
        wanted = reference.from_bf16(kv_formats.gather(cache, every, layout, 53))
    got = reference.from_bf16(bits(kv_formats.gather(torch.from_numpy(cache), tensor(every), layout, 53)))
    assert np.array_equal(got, wanted, equal_nan=True)


def test_decode_gives_the_same_bits(device: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPINFER_SPARSE_MLA_BACKEND", "smla")
    deepinfer.reset()
    random = np.random.default_rng(0)
    cache = kv_formats.empty_cache(random.standard_normal(1), 3, 16, "v4", 576)
    kv_formats.write(cache, np.arange(48), reference.to_bf16(random.standard_normal((48, 512))), "v4", 16)
    query = reference.to_bf16(random.standard_normal((2, 2, 64, 512)))
    indices = random.integers(-1, 50, (2, 2, 32)).astype(np.int32)
    length = np.array([9, 32], np.int32)
    wanted = deepinfer.decode_attn_sparse(query, cache, indices, 0.05, kv_format="v4", page_size=16, length=length)
    got = deepinfer.decode_attn_sparse(
        tensor(query),
        torch.from_numpy(cache),
        tensor(indices),
        0.05,
        kv_format="v4",
        page_size=16,
        length=tensor(length),
    )
    for a, b in zip(got, wanted):
        assert a.shape == b.shape and np.array_equal(bits(a), b)
    assert deepinfer.fallbacks() == 0
