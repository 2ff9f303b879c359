"""smla.decode and FlashMLA's decode entry on the emulated device, against float64 over what kv_formats gathers."""

import dataclasses
import re
from typing import Any, Dict, Optional, Tuple

import numpy as np
import pytest

import reference
import smla
from smla import kv_formats
from smla.flash_mla import FlashMLASchedMeta, flash_mla_with_kvcache, get_mla_metadata
from smla.kv_formats import KvFormat
from test_caches import aligned, bf16
from test_tensor import OnDevice

ml_dtypes = pytest.importorskip("ml_dtypes")
HEADS, B, S_Q, TOPK = 8, 3, 2, 96


@dataclasses.dataclass
class Cache:
    """One cache of a call: its bytes in pages, its lists, and what it holds. length: [b] or [b, s_q]."""

    row: KvFormat
    pages: np.ndarray  # [pages, bytes a page] uint8, a gap behind each
    tokens: int
    indices: np.ndarray  # [b, s_q, topk]
    length: Optional[np.ndarray]

    def shaped(self) -> np.ndarray:
        """[pages, tokens, 1, bytes a token], with the stride between pages that the gap makes."""
        shape = (len(self.pages), self.tokens, 1, self.row.token_bytes)
        strides = (self.pages.strides[0], self.row.token_bytes, self.row.token_bytes, 1)
        return np.lib.stride_tricks.as_strided(self.pages, shape, strides)

    def gathered(self) -> Tuple[np.ndarray, np.ndarray]:
        valid = (self.indices >= 0) & (self.indices < len(self.pages) * self.tokens)
        if self.length is not None:
            valid &= np.arange(self.indices.shape[2]) < self.length.reshape(len(self.indices), -1, 1)
        return reference.from_bf16(kv_formats.gather(self.pages, self.indices, self.row, self.tokens)), valid


def make_cache(
    name: Any, tokens: int, gap: int = 0, seed: int = 0, topk: int = TOPK, length: Any = "request", b: int = B
) -> Cache:
    """Pages with a gap behind each, up to 16-byte strides. Written rows at random slots, the rest all NaN; the lists
    select written ones, -1 and numbers that are no slot."""
    row = name if isinstance(name, KvFormat) else kv_formats.kv_format(name)
    random = np.random.default_rng(seed)
    pages = max(2, 200 // tokens)
    cache = aligned((pages, -(-(row.page_bytes(tokens) + gap) // 16) * 16))
    cache[:] = 0x7F
    slots = random.permutation(pages * tokens)[: pages * tokens * 3 // 4].astype(np.int32)
    kv_formats.write(cache, slots, reference.to_bf16(random.standard_normal((len(slots), row.d_qk))), row, tokens)
    indices = random.choice(slots, (b, S_Q, topk)).astype(np.int32)
    wrong = random.random(indices.shape) < 0.1
    indices[wrong] = random.choice(np.array([-1, -(2**31), pages * tokens, 2**31 - 1]), wrong.sum())
    lengths = {
        None: None,
        "request": np.array([topk + 5, 0, topk // 2][:b], np.int32),
        "token": np.array([[topk, 3], [0, topk + 9], [-4, topk // 2]][:b], np.int32),
    }
    return Cache(row, cache, tokens, indices, lengths[length])


def make_query(d_qk: int, heads: int = HEADS, seed: int = 9, b: int = B) -> Dict[str, Any]:
    random = np.random.default_rng(seed)
    query = aligned((b, S_Q, heads, d_qk), np.uint16)
    query[:] = reference.to_bf16(random.standard_normal(query.shape))
    sink = random.standard_normal(heads).astype(np.float32)
    sink[0], sink[-1] = np.inf, -np.inf
    return dict(query=query, sm_scale=d_qk**-0.5, attn_sink=sink)


def expected(call: Dict[str, Any], *caches: Cache) -> reference.Expected:
    """Of all tokens, one after the other."""
    query = call["query"]
    tokens = query.shape[0] * query.shape[1]
    rows, valid = (np.concatenate(part, axis=2) for part in zip(*(cache.gathered() for cache in caches)))
    return reference.attend(
        reference.from_bf16(query).reshape((tokens,) + query.shape[2:]),
        rows.reshape((tokens,) + rows.shape[2:]),
        valid.reshape(tokens, -1),
        float(call["sm_scale"]),
        call["attn_sink"],
    )


def check(result: tuple, wanted: reference.Expected, factor: float = 1.0) -> None:
    """(out, lse [b, s_q, h_q])."""
    reference.check_out(result[0], wanted)
    reference.check_row_values(result[1], wanted.lse, wanted, units=8.01, factor=factor)


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
    result = smla.decode(**call, **arguments)
    assert result[0].shape == call["query"].shape[:3] + (512,) and result[1].shape == call["query"].shape[:3]
    check(result, expected(call, *caches))
    for name, value in before.items():
        assert np.array_equal(value.view(np.uint8), arguments[name].view(np.uint8)), f"{name} was changed"
    return result


# smla.decode -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", kv_formats.FORMATS)
def test_presets(device: int, name: str) -> None:
    """By name, in pages with a gap; the same in FlashMLA's shape."""
    row = kv_formats.FORMATS[name]
    call, cache = make_query(row.d_qk), make_cache(name, 64, gap=48)
    result = run_and_check(call, first(cache, kv_format=name), cache)
    again = smla.decode(**call, **first(cache, kv=cache.shaped(), kv_format=name, kv_page_tokens=None))
    assert all(np.array_equal(a, b) for a, b in zip(result, again))


@pytest.mark.parametrize("tokens, gap", [(1, 0), (2, 32), (61, 0)])
@pytest.mark.parametrize("length", [None, "request", "token"])
def test_pages_and_lengths(device: int, tokens: int, gap: int, length: Optional[str]) -> None:
    call, cache = make_query(512), make_cache("v4", tokens, gap, length=length)
    run_and_check(call, first(cache), cache)


@pytest.mark.parametrize(
    "one, other, lengths", [("v4", "v4", "token"), ("v41", "v41_fp4", "request"), ("v32", "v32", None)]
)
def test_two_caches(device: int, one: str, other: str, lengths: Optional[str]) -> None:
    """Each with a page size, lists and lengths of its own."""
    call = make_query(kv_formats.kv_format(one).d_qk)
    a, b = make_cache(one, 61, length="request"), make_cache(other, 2, gap=16, seed=1, topk=70, length=lengths)
    run_and_check(call, {**first(a), **second(b)}, a, b)


@pytest.mark.parametrize("d_qk", [512, 576])
def test_bf16(device: int, d_qk: int) -> None:
    """Flat, [s_kv, 1, d] and in pages."""
    call, cache = make_query(d_qk, heads=64), make_cache(bf16(d_qk), 32)
    kv = cache.pages.view(np.uint16)
    pages = run_and_check(call, first(cache, kv=kv.reshape(-1, 32, 1, d_qk), kv_format=None), cache)
    for flat in (kv.reshape(-1, d_qk), kv.reshape(-1, 1, d_qk)):
        result = smla.decode(**call, **first(cache, kv=flat, kv_format=None, kv_page_tokens=None))
        assert all(np.array_equal(a, b) for a, b in zip(pages, result))


def test_long_lists_are_shared_and_combined(device: int) -> None:
    """One request and topk 2048: more pieces than tokens. batch_invariant: a token's bits are its own."""
    call, cache = make_query(512, b=1), make_cache("v41", 64, topk=2048, length=None, b=1)
    run_and_check(call, first(cache), cache)
    alone = smla.decode(**call, **first(cache), batch_invariant=True)
    check(alone, expected(call, cache))
    twice = {**call, "query": np.concatenate([call["query"]] * 2)}
    lists = np.concatenate([cache.indices] * 2)
    both = smla.decode(**twice, **first(cache, indices=lists), batch_invariant=True, sm_limit=3, after_previous=True)
    assert np.array_equal(both[0][1:], alone[0]) and np.array_equal(both[1][:1], alone[1])


def test_strided_inputs_and_outputs(device: int) -> None:
    call, cache = make_query(512), make_cache("v41", 64, length="token")
    wanted = smla.decode(**call, **first(cache))
    query = aligned((B, 3, HEADS + 2, 520), np.uint16)
    query[:, :S_Q, 1:-1, :512] = call["query"]
    lists, lengths = np.zeros((B, S_Q + 1, TOPK + 3), np.int32), np.zeros((B, 2 * S_Q), np.int32)
    lists[:, :S_Q, 3:], lengths[:, ::2] = cache.indices, cache.length
    out = np.full((B, 2, S_Q, HEADS + 1, 512), 7, np.uint16)
    lse = np.full((HEADS + 1, B, S_Q, 2), 7, np.float32)
    got = smla.decode(
        query[:, :S_Q, 1:-1, :512],
        cache.pages,
        lists[:, :S_Q, 3:],
        call["sm_scale"],
        attn_sink=call["attn_sink"],
        topk_length=lengths[:, ::2],
        kv_format="v41",
        kv_page_tokens=64,
        out=out[:, 1, :, 1:],
        lse=lse[1:, :, :, 0].transpose(1, 2, 0),
    )
    assert got[0].base is out
    assert np.array_equal(got[0], wanted[0]) and np.array_equal(got[1], wanted[1])
    assert (out[:, 0] == 7).all() and (out[:, 1, :, 0] == 7).all()
    assert (lse[0] == 7).all() and (lse[..., 1] == 7).all()


def test_lse_is_as_asked(device: int) -> None:
    call, cache = make_query(512), make_cache("v41", 64)
    call["attn_sink"][[0, -1]] = 0.5, -0.5
    wanted = expected(call, cache)
    check(smla.decode(**call, **first(cache), lse_base_2=True), wanted, factor=reference.LN2)
    lse = smla.decode(**call, **first(cache), lse_empty_negative=True)[1].reshape(wanted.lse.shape)
    assert np.isneginf(lse[np.isposinf(wanted.lse)]).all() and np.isposinf(wanted.lse).any()
    lse = smla.decode(**call, **first(cache), lse_with_sink=True)[1].reshape(wanted.lse.shape)
    sink = np.broadcast_to(call["attn_sink"], lse.shape)
    full = np.where(np.isposinf(wanted.lse), sink, np.logaddexp(wanted.lse, sink))
    assert np.allclose(lse, full, rtol=2e-4, atol=1e-5)
    assert smla.decode(**call, **first(cache), lse=None)[1] is None


def test_nothing_to_compute(device: int) -> None:
    call, cache = make_query(512), make_cache("v41", 64)
    for b, s_q in ((0, S_Q), (B, 0)):
        few = {**call, "query": call["query"][:b, :s_q]}
        length = cache.length[:b]
        out, lse = smla.decode(**few, **first(cache, indices=cache.indices[:b, :s_q], topk_length=length))
        assert out.shape == (b, s_q, HEADS, 512) and lse.shape == (b, s_q, HEADS)
    out, lse = smla.decode(**call, **first(cache, kv=cache.pages[:0]))
    assert not out.any() and np.isposinf(lse).all()
    out, lse = smla.decode(**call, **first(cache, indices=cache.indices[:, :, :0], topk_length=None))
    assert not out.any() and np.isposinf(lse).all()


def test_support_and_preparation(device: int) -> None:
    support = smla.query_support(64, 512, kv_format="v4", decode=True, target="90")
    assert support.supported and support.launches == 2
    assert support.kernel_id != smla.query_support(64, 512, kv_format="v4", target="90").kernel_id
    smla.prepare_decode(HEADS, 512, kv_format="v41")
    loaded = smla.stats()["kernels_loaded"]
    cache = make_cache("v41", 64)
    smla.decode(**make_query(512), **first(cache, kv_format="v41"))
    assert smla.stats()["kernels_loaded"] == loaded


def test_device_tensors_bring_their_workspace(device: int) -> None:
    """Of libraries that outputs are not allocated for; the error tells the size. (128 keys need none.)"""
    call, cache = make_query(512), make_cache("v41", 64, topk=200)
    arguments = {**call, **first(cache, kv_format="v41")}
    wanted = smla.decode(**arguments)
    held = {name: OnDevice(value) for name, value in arguments.items() if isinstance(value, np.ndarray)}
    out = OnDevice(np.zeros_like(wanted[0]))
    lse = OnDevice(np.zeros_like(wanted[1]))
    arguments.update(held, out=out, lse=lse)
    with pytest.raises(smla.InvalidArgumentError, match=r"give workspace= to write to, \[\d+\] f32") as refused:
        smla.decode(**arguments)
    size = 4 * int(re.search(r"\[(\d+)\] f32", str(refused.value)).group(1))
    with pytest.raises(smla.InvalidArgumentError, match="workspace of 16 bytes: this call needs"):
        smla.decode(**arguments, workspace=OnDevice(np.zeros(4, np.int32)))
    with pytest.raises(smla.InvalidArgumentError, match="workspace is on the host"):
        smla.decode(**arguments, workspace=np.zeros(size, np.uint8))
    result = smla.decode(**arguments, workspace=OnDevice(np.full(size, 0xFF, np.uint8)))
    assert result == (out, lse)
    assert np.array_equal(out.read(), wanted[0]) and np.array_equal(lse.read(), wanted[1])


def test_workspace_size_is_what_calls_take(device: int) -> None:
    """The bytes that are told are enough for the largest call and for smaller ones, and not one element too many."""
    shape = dict(kv_format="v41", max_b=B, max_s_q=S_Q)
    size = smla.decode_workspace_size(HEADS, 512, **shape, max_topk=200)
    assert size > 0 and size % 4 == 0
    assert smla.decode_workspace_size(HEADS, 512, **shape, max_topk=128) == 0, "nothing of 128 keys is cut"
    assert smla.decode_workspace_size(HEADS, 512, **{**shape, "max_b": 0}, max_topk=200) == 0
    assert smla.decode_workspace_size(HEADS, 512, **shape, max_topk=4000) >= size
    assert smla.decode_workspace_size(2 * HEADS, 512, **shape, max_topk=200) > size
    two = dict(shape, extra_kv_format="v41_fp4", max_topk=100)
    assert smla.decode_workspace_size(HEADS, 512, **two) == 0
    assert smla.decode_workspace_size(HEADS, 512, **two, max_extra_topk=100) > 0
    for topk in (200, 130):
        call, cache = make_query(512), make_cache("v41", 64, topk=topk)
        arguments = {**call, **first(cache, kv_format="v41")}
        wanted = smla.decode(**arguments)
        arguments.update({key: OnDevice(value) for key, value in arguments.items() if isinstance(value, np.ndarray)})
        out, lse = OnDevice(np.zeros_like(wanted[0])), OnDevice(np.zeros_like(wanted[1]))
        workspace = OnDevice(np.full(size, 0xFF, np.uint8))
        smla.decode(**arguments, out=out, lse=lse, workspace=workspace)
        assert np.array_equal(out.read(), wanted[0]) and np.array_equal(lse.read(), wanted[1])
        if topk == 200:
            with pytest.raises(smla.InvalidArgumentError, match=f"this call needs {size} "):
                smla.decode(**arguments, out=out, lse=lse, workspace=OnDevice(np.zeros(size - 1, np.uint8)))


def test_workspace_size_with_pieces_of_the_list_alone(device: int) -> None:
    """batch_invariant cuts by topk: in 1024 keys or more, so for none below."""
    asked = dict(batch_invariant=True, max_b=2, max_s_q=1)
    assert smla.decode_workspace_size(HEADS, 512, **asked, max_topk=1024) == 0
    assert smla.decode_workspace_size(HEADS, 512, **asked, max_topk=1100) > 0
    named = smla.decode_workspace_size(HEADS, 512, **asked, kv_format="bf16", max_topk=1100)
    loaded = smla.stats()["kernels_loaded"]
    assert smla.decode_workspace_size(HEADS, 512, **asked, max_topk=1100) == named
    assert smla.stats()["kernels_loaded"] == loaded, "bf16 by name is the kernel of no name"


@pytest.mark.parametrize(
    "sizes, message",
    [
        (dict(max_b=-1), "max_b -1"),
        (dict(max_s_q=2**31), "max_s_q 2147483648"),
        (dict(max_topk=-5), "max_topk -5"),
        (dict(max_extra_topk=1), "max_extra_topk 1: .* reads one cache"),
    ],
)
def test_workspace_size_refuses(device: int, sizes: Dict[str, int], message: str) -> None:
    with pytest.raises(smla.InvalidArgumentError, match=message):
        smla.decode_workspace_size(HEADS, 512, kv_format="v41", **{**dict(max_b=1, max_s_q=1, max_topk=1), **sizes})


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(query=np.zeros((B, HEADS, 512), np.uint16)), r"query is .*\[b, s_q, h_q, d_qk\] bf16 is needed"),
        (dict(indices=np.zeros((B, TOPK), np.int32)), r"indices is .*\[b, s_q, topk\] i32 is needed"),
        (dict(indices=np.zeros((B, S_Q, 4), np.int64)), "indices is .* i64"),
        (dict(topk_length=np.zeros(S_Q, np.int32)), r"topk_length is .*\[b\] or \[b, s_q\] i32 is needed"),
        (dict(topk_length=np.zeros((B, S_Q, 1), np.int32)), r"topk_length is .*\[b\] or \[b, s_q\] i32"),
        (dict(attn_sink=np.zeros(HEADS + 1, np.float32)), "attn_sink is"),
        (dict(extra_kv=np.zeros((2, 64 * 528), np.uint8)), "extra_indices is missing"),
        (dict(kv_page_tokens=65), "a page of 65 tokens"),
        (dict(out=np.zeros((B, S_Q, HEADS, 256), np.uint16)), "out is"),
        (dict(lse=np.zeros((B, HEADS, S_Q), np.float32)), "lse is"),
        (dict(sm_scale=np.inf), "sm_scale is inf"),
        (dict(sm_limit=-1), "sm_limit -1"),
        (dict(workspace=np.zeros(4, np.uint8)), "host arrays do without"),
    ],
)
def test_what_is_refused(device: int, changes: Dict[str, Any], message: str) -> None:
    cache = make_cache("v41", 64)
    with pytest.raises(smla.InvalidArgumentError, match=message):
        smla.decode(**{**make_query(512), **first(cache), **changes})


# FlashMLA --------------------------------------------------------------------------------------------------


def flash(call: Dict[str, Any], cache: Cache, **options: Any) -> tuple:
    """FlashMLA's call, by position where its tests pass by position."""
    metadata = options.pop("metadata", None) or get_mla_metadata()[0]
    return flash_mla_with_kvcache(
        call["query"],
        options.pop("k_cache", cache.shaped().view(ml_dtypes.float8_e4m3fn)),
        None,
        None,
        512,
        metadata,
        None,
        call["sm_scale"],
        False,
        True,
        cache.indices,
        call["attn_sink"],
        topk_length=cache.length,
        **options,
    )


def check_flash(result: tuple, wanted: reference.Expected) -> None:
    out, lse = result
    b, s_q, h_q = out.shape[:3]
    assert lse.shape == (b, h_q, s_q) and lse.dtype == np.float32
    buffer = lse.swapaxes(1, 2)
    assert buffer.flags.c_contiguous, "lse is a transposed view of a [b, s_q, h_q] buffer"
    check((out, buffer), wanted)


@pytest.mark.parametrize("d_qk, name", [(576, "v32"), (512, "v4")])
@pytest.mark.parametrize("tokens, gap", [(2, 0), (61, 0), (64, 576)])
def test_flash_mla_format_by_d_qk(device: int, d_qk: int, name: str, tokens: int, gap: int) -> None:
    call, cache = make_query(d_qk, heads=64), make_cache(name, tokens, gap, topk=128)
    check_flash(flash(call, cache), expected(call, cache))


def test_flash_mla_dtypes_and_reused_metadata(device: int) -> None:
    metadata, none = get_mla_metadata(np.zeros(3), 128, num_heads_k=1, topk=64)
    assert none is None and isinstance(metadata, FlashMLASchedMeta)
    call, cache = make_query(512), make_cache("v4", 64)
    wanted = flash(call, cache, metadata=metadata)
    for kv in (cache.shaped(), cache.shaped().view(np.int8)):
        assert all(np.array_equal(a, b) for a, b in zip(wanted, flash(call, cache, k_cache=kv, metadata=metadata)))
    other = make_cache("v4", 2, topk=33, length="token")
    check_flash(flash(call, other, metadata=metadata), expected(call, other))


def test_flash_mla_two_caches(device: int) -> None:
    call, cache = make_query(512), make_cache("v4", 61)
    for length in (None, "request", "token"):
        extra = make_cache("v4", 2, gap=64, seed=1, topk=70, length=length)
        options = dict(extra_k_cache=extra.shaped(), extra_indices_in_kvcache=extra.indices)
        result = flash(call, cache, **options, extra_topk_length=extra.length)
        check_flash(result, expected(call, cache, extra))


def test_flash_mla_empty_rows_and_sinks(device: int) -> None:
    """-1 everywhere or length 0: out 0 and lse +inf, whatever the sink; a sink of +inf: out 0, -inf: as none."""
    call, cache = make_query(512), make_cache("v4", 64)
    cache.indices[2] = -1
    out, lse = flash(call, cache)
    assert not out[1:].any() and np.isposinf(lse[1:]).all() and np.isfinite(lse[0]).all()
    assert not reference.from_bf16(out[0, :, 0]).any() and out[0, :, -1].any()
    call["attn_sink"] = None
    plain = flash(call, cache)
    assert np.array_equal(plain[0][0, :, -1], out[0, :, -1]) and np.array_equal(plain[1], lse)


def test_flash_mla_out_and_default_scale(device: int) -> None:
    call, cache = make_query(512), make_cache("v4", 64)
    wanted = flash(call, cache)
    wide = np.full((B, S_Q, HEADS + 4, 512), 7, np.uint16)
    call["sm_scale"] = None
    result = flash(call, cache, out=wide[:, :, 2:-2])
    assert result[0].base is wide and np.array_equal(result[0], wanted[0]) and np.array_equal(result[1], wanted[1])
    assert (wide[:, :, :2] == 7).all() and (wide[:, :, -2:] == 7).all()


def test_flash_mla_other_formats_by_keyword(device: int) -> None:
    call, cache = make_query(512), make_cache("v41", 61)
    check_flash(flash(call, cache, kv_format="v41"), expected(call, cache))
    extra = make_cache("v41_fp4", 2, seed=1)
    options = dict(extra_k_cache=extra.shaped(), extra_indices_in_kvcache=extra.indices)
    options.update(extra_topk_length=extra.length, kv_format="v41", extra_kv_format="v41_fp4")
    check_flash(flash(call, cache, **options), expected(call, cache, extra))
    with pytest.raises(smla.InvalidArgumentError, match="v4 has 584 bytes a token"):
        flash(call, cache)


def test_what_flash_mla_refuses(device: int) -> None:
    call, cache = make_query(512), make_cache("v4", 64)
    arguments = dict(
        q=call["query"],
        k_cache=cache.shaped(),
        block_table=np.zeros((B, 4), np.int32),
        cache_seqlens=np.zeros(B, np.int32),
        head_dim_v=512,
        tile_scheduler_metadata=get_mla_metadata()[0],
        is_fp8_kvcache=True,
        indices=cache.indices,
    )
    assert flash_mla_with_kvcache(**arguments)[0].any()
    for changes, error, message in (
        (dict(indices=None), smla.UnsupportedError, "indices is None"),
        (dict(head_dim_v=256), smla.UnsupportedError, "head_dim_v 256"),
        (dict(q=np.zeros((B, S_Q, HEADS, 640), np.uint16)), smla.UnsupportedError, "d_qk 640"),
        (dict(is_fp8_kvcache=False), smla.InvalidArgumentError, "is_fp8_kvcache is False"),
        (dict(causal=True), smla.InvalidArgumentError, "causal is True"),
        (dict(num_splits=np.zeros(B + 1, np.int32)), smla.InvalidArgumentError, "num_splits"),
        (dict(tile_scheduler_metadata=None), smla.InvalidArgumentError, "tile_scheduler_metadata is a NoneType"),
        (dict(extra_k_cache=cache.shaped()), smla.InvalidArgumentError, "extra_indices_in_kvcache"),
        (dict(k_cache=cache.pages), smla.InvalidArgumentError, "k_cache is"),
        (dict(q=call["query"][:, 0]), smla.InvalidArgumentError, "q is"),
    ):
        with pytest.raises(error, match=message):
            flash_mla_with_kvcache(**{**arguments, **changes})
