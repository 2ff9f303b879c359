"""tools/bench-python-rivals' inputs and rivals with torch on the host: what is written into a rival's inputs means the
same as what smla is given. Rivals are stood in for by float64; the card by the CPU and the emulated device."""

import pathlib
import sys
import types
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from conftest import ROOT

sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "python" / "h200")]
import attention64  # noqa: E402
from python_rivals import card, measure, rivals  # noqa: E402
from python_rivals.shapes import Shape  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

SHAPES = [
    Shape(s_q=3, topk=70, s_kv=90, sink=True),
    Shape(s_q=3, topk=70, s_kv=90, lengths=(1, 70)),
    Shape(s_q=5, topk=64, s_kv=40, indices="window", sink=True, lengths=(5, 60)),
    Shape(h_q=16, s_q=2, topk=33, s_kv=90, sink=True),
    Shape(h_q=128, d_qk=576, s_q=2, topk=70, s_kv=90, lengths=(5, 60)),
    Shape(h_q=40, d_qk=576, s_q=2, topk=64, s_kv=90, indices="window"),
]

FLAG_GEMS = """
import attention64
def flash_mla_sparse_fwd(q, kv, indices, sm_scale, d_v=512, attn_sink=None, topk_length=None):
    assert q.shape[1] in (64, 128) and q.is_contiguous() and kv.is_contiguous() and indices.is_contiguous()
    e = attention64.prefill(q, kv[:, 0], indices[:, 0], sm_scale, attn_sink, topk_length)
    return e.out.bfloat16(), e.max_logits.float(), e.lse.float()
"""
TILELANG_512 = """
import attention64
def sparse_attn_fwd(batch, heads, seq_len, seq_len_kv, dim, topk, sm_scale):
    assert topk % 64 == heads % 64 == 0 and dim == 512
    def kernel(q, kv, indices, sink):
        assert q.shape == (1, seq_len, heads, 512) and kv.shape == (1, seq_len_kv, 512) and sink.shape == (heads,)
        assert indices.shape == (1, seq_len, topk) and ((indices >= -1) & (indices < seq_len_kv)).all()
        return attention64.prefill(q[0], kv[0], indices[0], sm_scale, sink.float()).out.bfloat16()[None]
    return kernel
"""
TILELANG_576 = """
import torch, attention64
def sparse_mla_fwd_interface(q, kv, indices, sm_scale):
    seq_len_kv, q_i = kv.shape[1], 0
    max_kv_i = q_i
    assert q.is_contiguous() and kv.is_contiguous() and indices.is_contiguous() and indices.shape[3] % 64 == 0
    assert ((indices >= 0) & (indices <= seq_len_kv)).all()
    lists = torch.where(indices <= max_kv_i, indices, -1)
    e = attention64.prefill(q[0], kv[0, :, 0], lists[0, :, 0], sm_scale)
    return e.out.bfloat16()[None], e.lse.float()[None]
"""


class OnHost(TorchFunctionMode):
    """ "cuda" is the CPU."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        keywords = {**(keywords or {})}
        if keywords.get("device") == "cuda":
            keywords["device"] = "cpu"
        if function is torch.Tensor.cuda:
            return arguments[0]
        return function(*arguments, **keywords)


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in {
        "get_device_properties": lambda _: types.SimpleNamespace(L2_cache_size=1, name="host"),
        "current_device": lambda: 0,
        "Stream": lambda: None,
        "mem_get_info": lambda: (1 << 40, 1 << 40),
        "empty_cache": lambda: None,
        "synchronize": lambda: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    with OnHost():
        yield card.Card()


def expected(problem: card.Problem, i: int) -> torch.Tensor:
    copy = problem.inputs[i]
    return attention64.prefill(copy.query, problem.kv, copy.indices, problem.scale, problem.sink, copy.lengths).out


def check(problem: card.Problem, device: card.Card, bound: measure.Bound) -> None:
    for i in range(problem.copies):
        wanted = expected(problem, i)
        difference, largest = device.compare(wanted, bound.call(i))
        assert difference <= 2.0**-8 * largest, (i, difference)


@pytest.mark.parametrize("shape", SHAPES, ids=Shape.text)
def test_inputs(shape: Shape, on_host: card.Card) -> None:
    problem = on_host.make(shape)
    assert problem.copies == 2 and problem.kv.shape == (shape.s_kv, shape.d_qk) and problem.kv.is_contiguous()
    for copy, keys in zip(problem.inputs, problem.keys):
        valid = copy.indices >= 0
        if copy.lengths is not None:
            valid &= torch.arange(shape.topk) < copy.lengths[:, None]
        assert int(valid.sum()) == keys
    size = sum(t.nbytes for t in (copy.query, copy.indices, copy.lengths, copy.out) if t is not None)
    assert problem.copy_bytes == size
    assert not torch.equal(problem.inputs[0].query, problem.inputs[1].query)


@pytest.mark.parametrize("shape", SHAPES, ids=Shape.text)
def test_triton_is_given_the_same_problem(
    shape: Shape, on_host: card.Card, tmp_path: pathlib.Path, monkeypatch
) -> None:
    triton = types.ModuleType("triton")
    triton.__version__ = "0"
    monkeypatch.setitem(sys.modules, "triton", triton)
    (tmp_path / "flashmla_sparse.py").write_text(FLAG_GEMS)
    (rival,) = rivals.load(["triton"], rivals.Options(flag_gems=tmp_path / "flashmla_sparse.py"))
    problem = on_host.make(shape)
    bound = rival.bind(problem)
    assert bool(bound.note) == (shape.h_q not in (64, 128))
    check(problem, on_host, bound)


@pytest.mark.parametrize("shape", SHAPES, ids=Shape.text)
def test_tilelang_is_given_the_same_problem(
    shape: Shape, on_host: card.Card, tmp_path: pathlib.Path, monkeypatch
) -> None:
    monkeypatch.setitem(sys.modules, "tilelang", types.ModuleType("tilelang"))
    (tmp_path / "sparse_attn_fwd_sm90.py").write_text(TILELANG_512)
    (tmp_path / "sparse_mla_fwd.py").write_text(TILELANG_576)
    (rival,) = rivals.load(["tilelang"], rivals.Options(tilelang=tmp_path))
    problem = on_host.make(shape)
    if problem.sink is not None:
        problem.sink = problem.sink.bfloat16().float()  # its sinks are bf16
    bound = rival.bind(problem)
    assert ("causal" in bound.note) == (shape.d_qk == 576)
    check(problem, on_host, bound)


def test_tilelang_has_no_sinks_for_576(on_host: card.Card, tmp_path: pathlib.Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tilelang", types.ModuleType("tilelang"))
    (rival,) = rivals.load(["tilelang"], rivals.Options(tilelang=tmp_path))
    with pytest.raises(measure.NotItsShape, match="no sinks"):
        rival.bind(on_host.make(Shape(d_qk=576, s_q=1, topk=64, s_kv=64, sink=True)))


def test_smla_is_called_through_its_package(on_host: card.Card, device: int) -> None:
    problem = on_host.make(SHAPES[2])
    smla = rivals.Smla()
    on_host.poison(problem)
    bound = smla.bind(problem)
    check(problem, on_host, bound)
    assert bound.call(1) is problem.inputs[1].out
    assert smla.variant(SHAPES[2]).startswith("sm90_prefill") and smla.target() == "90a"
    assert torch.isfinite(problem.inputs[0].lse).all() and torch.isfinite(problem.inputs[1].max_logits).all()


def test_comparing(on_host: card.Card) -> None:
    ours = torch.zeros(600, 2, 4)
    ours[599, 1, 3] = -5
    theirs = ours.clone()
    assert on_host.compare(ours, theirs) == (0, 5)
    theirs[3] = 0.5
    assert on_host.compare(ours, theirs) == (0.5, 5)
    ours[4] = theirs[4] = float("nan")
    assert on_host.compare(ours, theirs) == (0.5, 5)
    theirs[300] = float("nan")
    assert on_host.compare(ours, theirs)[0] == float("inf")
