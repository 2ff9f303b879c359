"""The Python package on a card, with torch: values at serving sizes, golden caches, streams, CUDA graphs, views.

Not run by ctest: tests/python/h200/run runs it, and each test is skipped by name where there is no card."""

import dataclasses
import importlib.util
import os
import pathlib
import sys
import time
import types
from typing import Any, Dict, List

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "h200"))

import attention64  # noqa: E402
import smla  # noqa: E402
from smla import deepinfer, flashinfer_trace, kv_formats  # noqa: E402
from smla.flash_mla import flash_mla_sparse_fwd, flash_mla_with_kvcache, get_mla_metadata  # noqa: E402

pytestmark = [pytest.mark.h200, pytest.mark.skipif(not torch.cuda.is_available(), reason="no card here")]
CASES = pathlib.Path(os.environ.get("SMLA_CASES", "/nonexistent"))
SCALE = 512**-0.5

SHAPES = {
    "one query": dict(s_q=1, s_kv=65536, topk=2048),
    "window": dict(s_q=512, s_kv=4096, topk=128),
    "trace k640": dict(s_q=2048, s_kv=65536, topk=640, lengths=True, sinks=True),
    "v4 k512 with sinks": dict(s_q=4096, s_kv=8192, topk=512, sinks=True),
    "topk past s_kv": dict(s_q=300, s_kv=100, topk=256, lengths=True),
    "odd topk": dict(s_q=301, s_kv=3333, topk=133, sinks=True, lengths=True),
    "long list": dict(s_q=65, s_kv=131072, topk=8192, lengths=True),
}


@pytest.fixture(autouse=True)
def on_smla(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEEPINFER_SPARSE_MLA_BACKEND", "smla")
    deepinfer.reset()
    yield
    assert deepinfer.fallbacks() == 0


def make(s_q: int, s_kv: int, topk: int, lengths: bool = False, sinks: bool = False, seed: int = 0) -> Dict[str, Any]:
    """Arguments of flash_mla_sparse_fwd on the card."""
    torch.manual_seed(seed)
    indices = torch.full((s_q, topk), -1, dtype=torch.int32, device="cuda")
    count = min(topk, s_kv)
    for start in range(0, s_q, 256):
        scores = torch.rand(min(256, s_q - start), s_kv, device="cuda")
        indices[start : start + 256, :count] = scores.topk(count, dim=1).indices.to(torch.int32)
    indices[torch.rand(indices.shape, device="cuda") < 0.03] = -1
    indices[torch.rand(indices.shape, device="cuda") < 0.02] = s_kv
    length = torch.randint(0, topk + 1, (s_q,), dtype=torch.int32, device="cuda") if lengths else None
    sink = torch.randn(64, device="cuda") if sinks else None
    if sinks:
        sink[3], sink[7] = float("inf"), float("-inf")
    return dict(
        q=torch.randn(s_q, 64, 512, device="cuda").bfloat16(),
        kv=torch.randn(s_kv, 1, 512, device="cuda").bfloat16(),
        indices=indices[:, None],
        sm_scale=SCALE,
        attn_sink=sink,
        topk_length=length,
    )


def expected_of(a: Dict[str, Any], queries: slice = slice(None)) -> attention64.Expected:
    length = None if a["topk_length"] is None else a["topk_length"][queries]
    return attention64.prefill(
        a["q"][queries], a["kv"][:, 0], a["indices"][queries, 0], a["sm_scale"], a["attn_sink"], length
    )


def check(a: Dict[str, Any], result: tuple) -> Dict[str, float]:
    out, max_logits, lse = result
    measured = attention64.measure(expected_of(a), out, lse, max_logits)
    attention64.check(measured)
    return measured


@pytest.mark.parametrize("name", SHAPES)
def test_seven_shapes_against_float64(name: str) -> None:
    a = make(**SHAPES[name])
    before = {key: value.clone() for key, value in a.items() if torch.is_tensor(value)}
    result = flash_mla_sparse_fwd(**a)
    print(f"\n{name}: {check(a, result)}")
    for x, y in zip(result, flash_mla_sparse_fwd(**a)):
        assert torch.equal(x, y)
    for key, value in before.items():
        assert torch.equal(value, a[key]), f"{key} was changed"


@pytest.mark.parametrize("m, n", [(128, 192), (1024, 65536), (4096, 992383)])
def test_flashinfers_trace(m: int, n: int) -> None:
    a = make(m, n, 640, lengths=True, sinks=True) if n < 1e5 else make(m, 1000, 640, lengths=True, sinks=True)
    if n > 1e5:
        a["kv"] = torch.randn(n, 1, 512, device="cuda", dtype=torch.bfloat16)
        a["indices"] = torch.randint(0, n, (m, 1, 640), dtype=torch.int32, device="cuda")
    out = flashinfer_trace.run(
        a["q"], a["kv"][:, 0], a["indices"][:, 0], a["topk_length"], a["attn_sink"], torch.tensor(SCALE, device="cuda")
    )
    attention64.check(attention64.measure(expected_of(a), out))
    assert not out[a["topk_length"] == 0].any() and torch.isfinite(out).all()


def test_second_implementation_on_the_card() -> None:
    """smla's plain float64 kernel of the same meaning."""
    from smla import _native
    from smla._context import Description, context

    a = make(64, 4096, 640, sinks=True, lengths=True)
    out = torch.empty(64, 64, 512, device="cuda")
    lse = torch.empty(64, 64, device="cuda")
    args = _native.PrefillArgs(
        s_q=64,
        s_kv=4096,
        topk=640,
        sm_scale=SCALE,
        out=out.data_ptr(),
        lse=lse.data_ptr(),
        **{
            ours: a[theirs].data_ptr()
            for ours, theirs in (
                ("query", "q"),
                ("kv", "kv"),
                ("indices", "indices"),
                ("topk_length", "topk_length"),
                ("attn_sink", "attn_sink"),
            )
        },
    )
    context(0).kernel(Description(64, 512, op=_native.OP_PREFILL_REFERENCE)).prefill(args, 0)
    ours = flash_mla_sparse_fwd(**a)
    step = torch.exp2(torch.floor(torch.log2(out.abs().amax(dim=2).clamp_min(2.0**-126))) - 7)
    assert ((ours[0].float() - out).abs().amax(dim=2) <= 2 * step).all()
    finite = torch.isfinite(lse)
    assert torch.equal(lse[~finite], ours[2][~finite]) and (lse - ours[2])[finite].abs().max() < 1e-3


def flag_gems() -> Any:
    """FlagGems' Triton kernel of the same call, from its one file that SMLA_FLAG_GEMS names."""
    path = pathlib.Path(os.environ.get("SMLA_FLAG_GEMS", "/nonexistent"))
    if not path.exists():
        pytest.skip("FlagGems' kernel is not here: SMLA_FLAG_GEMS names its flashmla_sparse.py")
    pytest.importorskip("triton")
    versions = types.ModuleType("flag_gems.utils.triton_version_utils")
    versions.has_triton_tle = lambda *_: False  # its Triton path, not the one for a Triton of its own
    for name in ("flag_gems", "flag_gems.utils"):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules[versions.__name__] = versions
    spec = importlib.util.spec_from_file_location("flag_gems_flashmla_sparse", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SHAPES)
def test_against_flag_gems(name: str) -> None:
    """Both within 2 ULP of float64, so within 4 of each other. Its rows whose first 64 entries are all invalid are NaN
    by a known defect, and are left out."""
    a = make(**SHAPES[name])
    theirs = flag_gems().flash_mla_sparse_fwd(**a)
    ours = flash_mla_sparse_fwd(**a)
    row = torch.isfinite(theirs[0]).all(dim=2) & torch.isfinite(theirs[2])
    assert row.float().mean() > 0.5
    largest = ours[0].float().abs().amax(dim=2)
    ulps = (ours[0].float() - theirs[0].float()).abs().amax(dim=2)
    ulps = torch.where(largest > 0, ulps / torch.exp2(torch.floor(torch.log2(largest.clamp_min(2.0**-126))) - 7), ulps)
    worst, share = float(ulps[row].max()), float(row.float().mean())
    print(f"\n{name}, FlagGems: {worst:.2f} ULP apart at most, {share:.3f} of the rows")
    assert ulps[row].max() <= 4
    for x, y in zip(ours[1:], theirs[1:]):
        assert (x - y)[row].abs().max() < 1e-3


def load(name: str) -> Dict[str, Any]:
    from safetensors import safe_open

    path = CASES / f"{name}.safetensors"
    if not path.exists():
        pytest.skip(f"no {path}")
    with safe_open(str(path), "pt", device="cuda") as file:
        return {**{key: file.get_tensor(key) for key in file.keys()}, **file.metadata()}


GOLDEN = ["d01-v32", "d02-model1-two-caches", "d03-v41-fp4-extra", "d04-v41", "d05-v41-planar"]


@pytest.mark.parametrize("direct", ["0", "1"])
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_decode(monkeypatch: pytest.MonkeyPatch, name: str, direct: str) -> None:
    """Gathered to bf16 first, and by the kernel of the formats."""
    monkeypatch.setenv("DEEPINFER_SPARSE_MLA_DIRECT", direct)
    case = load(name)
    query, sink = case["Q"], case.get("attn_sink")
    b, s_q, heads, d = query.shape
    options: Dict[str, Any] = {}
    if "extra_KV" in case:
        options = dict(
            extra_kv_cache=case["extra_KV"],
            extra_indices=case["extra_indices"],
            extra_kv_format=case["extra_kv_format"],
            extra_page_size=int(case["extra_page_size"]),
            extra_length=case.get("extra_topk_length"),
        )
    scale = float(case["sm_scale"])
    out, lse = deepinfer.decode_attn_sparse(
        query,
        case["KV"],
        case["indices"],
        scale,
        kv_format=case["kv_format"],
        page_size=int(case["page_size"]),
        length=case.get("topk_length"),
        attn_sink=sink,
        **options,
    )
    rows, valid = [], []
    for prefix in ("", "extra_"):
        if f"{prefix}KV" in case:
            indices = case[f"{prefix}indices"]
            rows.append(
                kv_formats.gather(
                    case[f"{prefix}KV"], indices, case[f"{prefix}kv_format"], int(case[f"{prefix}page_size"])
                )
            )
            valid.append(indices >= 0)
            if f"{prefix}topk_length" in case:
                valid[-1] &= torch.arange(indices.shape[-1], device="cuda") < case[f"{prefix}topk_length"].reshape(
                    -1, 1, 1
                )
    expected = attention64.attend(
        query.reshape(-1, heads, d),
        torch.cat(rows, dim=2).reshape(b * s_q, -1, d),
        torch.cat(valid, dim=2).reshape(b * s_q, -1),
        scale,
        sink,
    )
    measured = attention64.measure(expected, out, lse, lse_factor=attention64.LN2, lse_units=8.01)
    print(f"\n{name}: {measured}")
    attention64.check(measured)
    wanted = case["O_ref"].double().reshape(-1, heads, 512)
    assert (expected.out - wanted).abs().max() <= 2e-6 * max(1.0, float(wanted.abs().max()))
    for key in ("O", "O_ref"):
        if key in case:
            assert (out.float() - case[key].float()).abs().max() < 2e-2 * wanted.abs().max()


def test_lse_is_in_base_2() -> None:
    a = make(64, 1000, 256, sinks=True)
    lse = deepinfer.prefill_attn_varlen_sparse(a["q"], a["kv"], a["indices"], SCALE, a["attn_sink"])[1]
    natural = flash_mla_sparse_fwd(**a)[2]
    assert ((lse * attention64.LN2 / natural) - 1).abs().max() < 1e-5


def busy(milliseconds: int = 20) -> None:
    torch.cuda._sleep(int(milliseconds * 1.5e6))


@pytest.mark.parametrize("kind", ["null", "current", "argument", "number"])
def test_streams(kind: str) -> None:
    """The query is written late, on the stream of the call: a launch on any other would read zeros."""
    a = make(128, 2000, 256)
    wanted = flash_mla_sparse_fwd(**a)[0]
    source, late = a["q"], torch.zeros_like(a["q"])
    torch.cuda.synchronize()
    stream = torch.cuda.default_stream() if kind == "null" else torch.cuda.Stream()
    with torch.cuda.stream(stream):
        busy()
        late.copy_(source)
        if kind in ("null", "current"):
            out = flash_mla_sparse_fwd(**{**a, "q": late})[0]
    if kind in ("argument", "number"):
        out = smla.prefill(
            late, a["kv"], a["indices"], SCALE, stream=stream if kind == "argument" else stream.cuda_stream
        )[0]
    stream.synchronize()
    assert torch.equal(out, wanted)


def test_new_outputs_belong_to_the_stream_that_writes_them() -> None:
    a = make(512, 2000, 256)
    flash_mla_sparse_fwd(**a)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    scratch = torch.zeros(512, 64, 512, dtype=torch.bfloat16, device="cuda")
    wanted = flash_mla_sparse_fwd(**a)[0].clone()
    torch.cuda.synchronize()
    busy()
    scratch.fill_(3)
    del scratch  # its memory may be handed out on this stream alone
    out = smla.prefill(a["q"], a["kv"], a["indices"], SCALE, stream=side)[0]
    torch.cuda.synchronize()
    assert torch.equal(out, wanted)


def test_cuda_graph_of_both_entries() -> None:
    a, b = make(64, 1000, 256, sinks=True, lengths=True, seed=1), make(64, 1000, 256, sinks=True, lengths=True, seed=2)
    smla.prepare(64, 512)
    cache = kv_formats.empty_cache(a["q"], 8, 64, "v41", 1)
    kv_formats.write(cache, torch.arange(512, device="cuda", dtype=torch.int32), a["kv"][:512, 0], "v41", 64)
    slots = torch.randint(-1, 512, (64, 1, 128), dtype=torch.int32, device="cuda")

    def both() -> tuple:
        return (
            *flash_mla_sparse_fwd(**a),
            *deepinfer.decode_attn_sparse(
                a["q"][:, None],
                cache,
                slots,
                SCALE,
                kv_format="v41",
                page_size=64,
                length=a["topk_length"].clamp_max(128),
            ),
        )

    both()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = both()
    for source in (a, b, a):
        values = {key: value.clone() for key, value in source.items() if torch.is_tensor(value)}
        for key, value in values.items():
            a[key].copy_(value)
        graph.replay()
        torch.cuda.synchronize()
        for got, wanted in zip(captured, both()):
            assert torch.equal(got, wanted)
        check(a, captured[:3])


@dataclasses.dataclass
class Paged:
    """A cache, lists and lengths at addresses that stay, whose contents change. A quarter of the slots are NaN, and no
    list selects them."""

    name: str
    page: int
    pages: torch.Tensor  # [pages, bytes a page] uint8
    written: torch.Tensor  # the slots that hold tokens
    indices: torch.Tensor  # [b, s_q, topk] int32
    length: torch.Tensor  # [b] or [b, s_q] int32

    @classmethod
    def make(cls, name: str, page: int, pages: int, lists: tuple, lengths: int, random: torch.Generator) -> "Paged":
        """lists: b, s_q, topk. lengths: 1 one a request, 2 one a token."""
        indices = torch.full(lists, -1, dtype=torch.int32, device="cuda")
        length = torch.zeros(lists[:lengths], dtype=torch.int32, device="cuda")
        cache = kv_formats.empty_cache(indices, pages, page, name, 16)
        cache.fill_(0x7F)
        order = torch.randperm(pages * page, generator=random, device="cuda")
        made = cls(name, page, cache, order[: pages * page * 3 // 4].to(torch.int32), indices, length)
        made.write(made.written, random)
        return made

    def write(self, slots: torch.Tensor, random: torch.Generator) -> None:
        rows = torch.randn(len(slots), kv_formats.kv_format(self.name).d_qk, generator=random, device="cuda")
        kv_formats.write(self.pages, slots, rows.bfloat16(), self.name, self.page)

    def refill(self, replay: int, random: torch.Generator) -> None:
        """Other tokens in 512 of the slots, other lists, other lengths: outside [0, topk] too; each third time one is
        long and the others are short, and each fiftieth all are 0."""
        self.write(self.written[torch.randperm(len(self.written), generator=random, device="cuda")[:512]], random)
        picked = torch.randint(len(self.written), self.indices.shape, generator=random, device="cuda")
        chance = torch.rand(self.indices.shape, generator=random, device="cuda")
        slots = torch.where(chance < 0.05, -1, self.written[picked])
        self.indices.copy_(torch.where(chance > 0.97, len(self.pages) * self.page, slots))
        topk = self.indices.shape[2]
        length = torch.randint(-3, topk + 6, self.length.shape, generator=random, device="cuda")
        if replay % 3 == 1:
            length.remainder_(70)
            length.view(-1)[replay % length.numel()] = topk
        if replay % 50 == 7:
            length.zero_()
        self.length.copy_(length)

    def shaped(self) -> torch.Tensor:
        """[pages, page, 1, bytes a token], as FlashMLA has it."""
        size = kv_formats.kv_format(self.name).token_bytes
        return self.pages.as_strided((len(self.pages), self.page, 1, size), (self.pages.stride(0), size, size, 1))

    def valid(self) -> torch.Tensor:
        length = self.length.reshape(len(self.length), -1, 1)
        entry = torch.arange(self.indices.shape[2], device="cuda")
        return (self.indices >= 0) & (self.indices < len(self.pages) * self.page) & (entry < length)


def expected_of_decode(q: torch.Tensor, caches: List[Paged], sink: torch.Tensor) -> attention64.Expected:
    b, s_q, heads, d = q.shape
    rows = [kv_formats.gather(cache.pages, cache.indices, cache.name, cache.page) for cache in caches]
    return attention64.attend(
        q.reshape(-1, heads, d),
        torch.cat(rows, dim=2).reshape(b * s_q, -1, d),
        torch.cat([cache.valid() for cache in caches], dim=2).reshape(b * s_q, -1),
        d**-0.5,
        sink,
    )


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int16 if tensor.dtype == torch.bfloat16 else torch.int32)


REPLAYS = 1000
# Of each cache: format, tokens a page, pages, topk, and 1 for lengths of requests, 2 of tokens.
REPLAYED = {
    "two caches of v4": dict(heads=64, b=8, s_q=2, caches=[("v4", 64, 128, 128, 1), ("v4", 2, 2048, 512, 2)]),
    "v32, 128 heads": dict(heads=128, b=4, s_q=1, caches=[("v32", 64, 256, 2048, 1)]),
    "v4, 8 heads": dict(heads=8, b=17, s_q=4, caches=[("v4", 61, 100, 300, 2)]),
}


@pytest.mark.parametrize("name", REPLAYED)
def test_a_captured_decode_is_replayed_with_other_contents(name: str) -> None:
    """flash_mla_with_kvcache is captured once. Each replay, over other queries, lists, lengths and tokens of the pages,
    gives what an eager call gives then, bit for bit; some are held to float64."""
    shape = REPLAYED[name]
    heads, b, s_q = shape["heads"], shape["b"], shape["s_q"]
    random = torch.Generator(device="cuda")
    random.manual_seed(1)
    caches = [
        Paged.make(kind, page, pages, (b, s_q, topk), lengths, random)
        for kind, page, pages, topk, lengths in shape["caches"]
    ]
    q = torch.zeros(b, s_q, heads, kv_formats.kv_format(caches[0].name).d_qk, dtype=torch.bfloat16, device="cuda")
    sink = torch.randn(heads, generator=random, device="cuda")
    sink[1], sink[2] = float("inf"), float("-inf")
    second = {}
    if len(caches) == 2:
        second = dict(
            extra_k_cache=caches[1].shaped(),
            extra_indices_in_kvcache=caches[1].indices,
            extra_topk_length=caches[1].length,
        )
    metadata = get_mla_metadata()[0]

    def call() -> tuple:
        return flash_mla_with_kvcache(
            q,
            caches[0].shaped(),
            None,
            None,
            512,
            metadata,
            is_fp8_kvcache=True,
            indices=caches[0].indices,
            attn_sink=sink,
            topk_length=caches[0].length,
            **second,
        )

    call()  # makes the kernel ready
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = call()
    previous, worst = torch.zeros_like(out), 0.0
    for replay in range(REPLAYS):
        q.copy_(torch.randn(q.shape, generator=random, device="cuda"))
        for cache in caches:
            cache.refill(replay, random)
        out.fill_(float("nan"))
        lse.fill_(float("nan"))
        eager = call() if replay % 2 else None  # before the replay, or behind it
        graph.replay()
        eager = eager or call()
        for what, got, wanted in zip(("out", "lse"), (out, lse), eager):
            assert torch.equal(bits(got), bits(wanted)), f"replay {replay}: {what} has other bits than an eager call's"
        assert not torch.equal(out, previous), f"replay {replay}: out is the replay's before"
        previous.copy_(out)
        if replay % 100 in (0, 1, 7):
            expected = expected_of_decode(q, caches, sink)
            measured = attention64.measure(expected, out, lse.swapaxes(1, 2), lse_units=8.01)
            attention64.check(measured)
            worst = max(worst, measured["bound"])
    print(f"\nreplayed, {name}: {REPLAYS} times, at most {worst:.3f} of the bound")


def test_views_as_inputs_and_outputs() -> None:
    a = make(50, 500, 128, sinks=True, lengths=True)
    wanted = flash_mla_sparse_fwd(**a)
    out = torch.full((50, 2, 100, 640), 7.0, dtype=torch.bfloat16, device="cuda")
    view = out[:, 1, 8:72, 64:576]
    wide = torch.full((50, 66, 640), float("nan"), dtype=torch.bfloat16, device="cuda")
    wide[:, 1:65, :512] = a["q"]
    rows = torch.full((500, 2, 520), float("nan"), dtype=torch.bfloat16, device="cuda")
    rows[:, 1:, 8:] = a["kv"]
    lists = torch.zeros(50, 1, 131, dtype=torch.int32, device="cuda")
    lists[:, :, 3:] = a["indices"]
    got = flash_mla_sparse_fwd(
        wide[:, 1:65, :512],
        rows[:, 1:, 8:],
        lists[:, :, 3:],
        SCALE,
        attn_sink=a["attn_sink"],
        topk_length=a["topk_length"],
        out=view,
    )
    assert got[0] is view
    for x, y in zip(got, wanted):
        assert torch.equal(x, y)
    view.fill_(7)
    assert (out == 7).all(), "something beside the view was written"


def test_a_row_of_heads_of_another_layout() -> None:
    """q stored as [h, s_q, d], out too: any stride FlashMLA takes."""
    a = make(50, 500, 128)
    wanted = flash_mla_sparse_fwd(**a)[0]
    out = torch.empty(64, 50, 512, dtype=torch.bfloat16, device="cuda").transpose(0, 1)
    a["q"] = a["q"].transpose(0, 1).contiguous().transpose(0, 1)
    assert torch.equal(flash_mla_sparse_fwd(**a, out=out)[0], wanted)


def test_nothing_hangs_on_a_pointer() -> None:
    a = make(64, 300, 128)
    check(a, flash_mla_sparse_fwd(**a))  # torch's own workspaces come into being here
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for seed in range(20):
        b = make(64, 300 - seed, 128, seed=seed)
        check(b, flash_mla_sparse_fwd(**b))
        del b
    assert torch.cuda.memory_allocated() == before


def test_errors_leave_the_card_usable() -> None:
    a = make(4, 300, 128)
    wide = [torch.zeros(rows, heads, 640, dtype=torch.bfloat16, device="cuda") for rows, heads in ((4, 64), (300, 1))]
    with pytest.raises(smla.UnsupportedError, match="d_qk 640"):
        flash_mla_sparse_fwd(*wide, a["indices"], SCALE)
    with pytest.raises(smla.InvalidArgumentError, match="kv is on the host and query on device"):
        flash_mla_sparse_fwd(a["q"], a["kv"].cpu(), a["indices"], SCALE)
    with pytest.raises(smla.InvalidArgumentError):
        flash_mla_sparse_fwd(a["q"], a["kv"], a["indices"].long(), SCALE)
    a["topk_length"] = torch.tensor([5], dtype=torch.int32, device="cuda").expand(4)
    check(a, flash_mla_sparse_fwd(**a))
    empty = make(4, 300, 128)
    empty["q"], empty["indices"] = empty["q"][:0], empty["indices"][:0]
    assert flash_mla_sparse_fwd(**empty)[0].shape == (0, 64, 512)


def test_numpy_on_a_card() -> None:
    numpy = pytest.importorskip("numpy")
    a = make(4, 300, 128)
    bits = [a[name].view(torch.int16).cpu().numpy().view(numpy.uint16) for name in ("q", "kv")]
    out = flash_mla_sparse_fwd(*bits, a["indices"].cpu().numpy(), SCALE)[0]
    assert numpy.array_equal(out, flash_mla_sparse_fwd(**a)[0].view(torch.int16).cpu().numpy().view(numpy.uint16))


def test_the_host_time_of_a_call_is_told() -> None:
    a = make(1, 300, 128)
    out = torch.empty(1, 64, 512, dtype=torch.bfloat16, device="cuda")
    for _ in range(100):
        flash_mla_sparse_fwd(**a, out=out)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(1000):
        flash_mla_sparse_fwd(**a, out=out)
    print(f"\nhost time of a call: {(time.perf_counter() - started) * 1e3:.1f} us")
    torch.cuda.synchronize()
