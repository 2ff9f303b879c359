"""TileLang's sparse attention kernels, from its repository's examples, as a second implementation of the same call.

Not run by ctest: tests/python/h200/run runs it. SMLA_TILELANG names the folder of the two examples, SMLA_TILELANG_SITE
one with TileLang and what it needs."""

import importlib
import importlib.util
import os
import pathlib
import sys
import types
from typing import Any, Dict

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import attention64  # noqa: E402
from smla.flash_mla import flash_mla_sparse_fwd  # noqa: E402
from test_h200 import SHAPES, expected_of, make  # noqa: E402

pytestmark = [pytest.mark.h200, pytest.mark.skipif(not torch.cuda.is_available(), reason="no card here")]
EXAMPLES = pathlib.Path(os.environ.get("SMLA_TILELANG", "/nonexistent"))
SITE = os.environ.get("SMLA_TILELANG_SITE", "/nonexistent")
BLOCK = 64  # keys that the examples take at once: topk is a multiple
CAUSAL = {"v32 k2048": 4096, "v32 topk past s_kv": 300}  # s_q = s_kv


def example(name: str) -> types.ModuleType:
    """A module of TileLang's examples."""
    path = EXAMPLES / f"{name}.py"
    if not path.exists():
        pytest.skip("TileLang's examples are not here: SMLA_TILELANG names their folder")
    if SITE not in sys.path:
        sys.path.append(SITE)
    importlib.import_module("tilelang")  # a failure here fails the test
    helper = types.ModuleType("utils")
    helper.assert_tensors_similar = None  # of the example's own test
    sys.modules.setdefault("utils", helper)
    spec = importlib.util.spec_from_file_location(f"tilelang_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def padded(topk: int) -> int:
    return -(-topk // BLOCK) * BLOCK


@pytest.fixture(scope="module")
def kernels() -> Dict[str, Any]:
    """The d 512 kernel by shape, all compiled at once."""
    module = example("sparse_attn_fwd_sm90")
    configurations = [
        dict(batch=1, heads=64, seq_len=s["s_q"], seq_len_kv=s["s_kv"], dim=512, topk=padded(s["topk"]))
        for s in SHAPES.values()
    ]
    return dict(zip(SHAPES, module.sparse_attn_fwd.par_compile(configurations)))


def between_rows(kv: torch.Tensor) -> torch.Tensor:
    """kv with a row of zeros before and one behind, which an entry of -1 or s_kv may read."""
    zeros = torch.zeros_like(kv[:1])
    return torch.cat([zeros, kv, zeros])[1:-1]


def compare(name: str, expected: attention64.Expected, ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Ours within 2 ULP of float64 and of theirs, of which rows without a key are left out: it may make NaN of them."""
    measured = attention64.measure(expected, ours)
    attention64.check(measured)
    row = torch.isfinite(expected.lse)
    assert torch.isfinite(theirs[row]).all() and not ours[~row].any()
    largest = expected.out.abs().amax(dim=2)
    step = torch.exp2(torch.floor(torch.log2(largest.clamp_min(2.0**-126))) - 7)
    apart = (ours.double() - theirs.double()).abs().amax(dim=2) / step
    off = (theirs.double() - expected.out).abs().amax(dim=2) / step
    same = float((ours == theirs)[row].double().mean())
    print(
        f"\n{name}, TileLang: {float(apart[row].max()):.2f} ULP apart at most, {same:.4f} of the elements equal; from "
        f"float64 ours {measured['ulp']:.2f}, theirs {float(off[row].max()):.2f} ULP; {int(row.sum())} rows"
    )
    assert apart[row].max() <= 2


@pytest.mark.parametrize("name", SHAPES)
def test_seven_shapes(name: str, kernels: Dict[str, Any]) -> None:
    """What it has no argument for is written into the lists: it masks negative entries only, and has no lengths."""
    a = make(**SHAPES[name])
    if a["attn_sink"] is not None:  # it multiplies sinks by log2 e in bf16: 0 and the infinities survive that
        a["attn_sink"] = torch.where(torch.isinf(a["attn_sink"]), a["attn_sink"], 0.0)
    a["kv"] = between_rows(a["kv"])
    ours = flash_mla_sparse_fwd(**a)[0]
    lists = a["indices"][:, 0]
    valid = lists < a["kv"].shape[0]
    if a["topk_length"] is not None:
        valid &= torch.arange(lists.shape[1], device="cuda") < a["topk_length"][:, None]
    lists = torch.where(valid, lists, -1)
    lists = torch.nn.functional.pad(lists, (0, padded(lists.shape[1]) - lists.shape[1]), value=-1)
    sink = torch.full((64,), float("-inf"), device="cuda") if a["attn_sink"] is None else a["attn_sink"]
    theirs = kernels[name](a["q"][None], a["kv"][None, :, 0], lists[None].contiguous(), sink.bfloat16())[0]
    compare(name, expected_of(a), ours, theirs)


@pytest.mark.parametrize("name", CAUSAL)
def test_keys_of_576(name: str) -> None:
    """Its kernel for d 576 masks what lies behind the query, so each query picks from those before it and itself."""
    module = example("sparse_mla_fwd")
    length, topk, scale = CAUSAL[name], 2048, 576**-0.5
    torch.manual_seed(0)
    scores = torch.rand(length, length, device="cuda")
    scores.masked_fill_(torch.ones(length, length, dtype=torch.bool, device="cuda").triu(1), -1)
    best = scores.topk(min(topk, length), dim=1)
    lists = torch.where(best.values >= 0, best.indices, length).to(torch.int32)
    lists = torch.nn.functional.pad(lists, (0, topk - lists.shape[1]), value=length)
    query = torch.randn(length, 64, 576, device="cuda").bfloat16()
    kv = between_rows(torch.randn(length, 1, 576, device="cuda").bfloat16())
    out, _, lse = flash_mla_sparse_fwd(query, kv, lists[:, None], scale)
    theirs, theirs_lse = module.sparse_mla_fwd_interface(query[None], kv[None], lists[None, :, None], scale)
    compare(name, attention64.prefill(query, kv[:, 0], lists, scale), out, theirs[0])
    assert (lse - theirs_lse[0] * attention64.LN2).abs().max() < 1e-3  # theirs is in base 2
