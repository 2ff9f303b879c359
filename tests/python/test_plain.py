"""The plain case's own way (smla._plain) gives the library the very arguments of the general way, and leaves it
whatever else comes. With a torch that has the few attributes which are looked at: no card is needed, and no torch."""

import ctypes
import dataclasses
import sys
import types
from typing import Any, Dict, List, Optional, Tuple

import pytest

import smla
from smla import _plain, _prefill, _tensor
from smla._context import Kernel
from smla.flash_mla import flash_mla_sparse_fwd

STREAM = 0x5EED


@dataclasses.dataclass(frozen=True)
class Dtype:
    name: str

    def __str__(self) -> str:
        return f"torch.{self.name}"


BF16, F32, I32, I64, U8, E4M3 = (
    Dtype(name) for name in ("bfloat16", "float32", "int32", "int64", "uint8", "float8_e4m3fn")
)


@dataclasses.dataclass(frozen=True)
class Device:
    type: str
    index: Optional[int]


class Tensor:
    """A tensor on device 0 that has no memory."""

    _next = 1 << 40

    def __init__(self, shape: Tuple[int, ...], dtype: Dtype, strides: Any = None, device: str = "cuda") -> None:
        self.shape, self.dtype = tuple(shape), dtype
        self._strides = tuple(strides) if strides is not None else _tensor.contiguous_strides(shape)
        self.is_cuda, self.device = device == "cuda", Device(device, 0 if device == "cuda" else None)
        self._pointer = Tensor._next
        Tensor._next += 1 << 32

    def get_device(self) -> int:
        return 0 if self.is_cuda else -1

    def stride(self) -> Tuple[int, ...]:
        return self._strides

    def data_ptr(self) -> int:
        return self._pointer

    def contiguous(self) -> "Tensor":
        return Tensor(self.shape, self.dtype)


@pytest.fixture(autouse=True)
def calls(device: int, monkeypatch: pytest.MonkeyPatch) -> List[Tuple[Dict[str, Any], int]]:
    """What the library is asked for, in place of asking it."""
    torch = types.ModuleType("torch")
    torch.Tensor, torch.bfloat16, torch.float32, torch.int32 = Tensor, BF16, F32, I32
    torch.empty = lambda shape, dtype, device: Tensor(shape, dtype)
    torch.cuda = types.SimpleNamespace(current_stream=lambda _: types.SimpleNamespace(cuda_stream=STREAM))
    torch._C = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(_plain, "_raw_stream", None)
    asked: List[Tuple[Dict[str, Any], int]] = []

    def prefill(self: Kernel, args: ctypes.Structure, stream: int) -> None:
        asked.append(({name: getattr(args, name) for name, *_ in args._fields_}, stream))

    monkeypatch.setattr(Kernel, "prefill", prefill)
    return asked


def inputs(**changes: Any) -> Dict[str, Any]:
    named = dict(
        query=Tensor((5, 64, 512), BF16),
        kv=Tensor((300, 1, 512), BF16),
        indices=Tensor((5, 1, 128), I32),
        sm_scale=0.1,
        topk_length=Tensor((5,), I32),
        attn_sink=Tensor((64,), F32),
        out=Tensor((5, 64, 512), BF16),
    )
    return {**named, **changes}


def general(monkeypatch: pytest.MonkeyPatch, arguments: Dict[str, Any]) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(_prefill._plain, "prefill", lambda *_: None)
        return smla.prefill(**arguments)


PLAIN = {
    "as it comes": {},
    "nothing that may be left out": dict(topk_length=None, attn_sink=None, lse=None, max_logits=False),
    "two dimensions": dict(kv=Tensor((300, 512), BF16), indices=Tensor((5, 128), I32)),
    "wide rows": dict(
        query=Tensor((5, 64, 512), BF16, (64 * 640, 640, 1)),
        kv=Tensor((300, 1, 512), BF16, (1040, 520, 1)),
        indices=Tensor((5, 1, 128), I32, (131, 7, 1)),
        topk_length=Tensor((5,), I32, (3,)),
        out=Tensor((5, 64, 512), BF16, (512, 5 * 512, 1)),
    ),
    "16 heads of 576": dict(
        query=Tensor((5, 16, 576), BF16),
        kv=Tensor((300, 1, 576), BF16),
        attn_sink=Tensor((16,), F32),
        out=Tensor((5, 16, 512), BF16),
    ),
    "one query, strides of no meaning": dict(
        query=Tensor((1, 1, 512), BF16, (3, 0, 1)),
        kv=Tensor((1, 1, 512), BF16, (0, 0, 1)),
        indices=Tensor((1, 1, 128), I32, (9, 9, 1)),
        topk_length=Tensor((1,), I32, (0,)),
        attn_sink=Tensor((1,), F32),
        out=Tensor((1, 1, 512), BF16, (0, 7, 1)),
    ),
    "beside other kernels": dict(persistent=True, sm_limit=7, after_previous=True),
    "words for lse": dict(lse_base_2=True, lse_with_sink=True, lse_empty_negative=True, batch_invariant=True),
}


def compare(calls: list, fast: Any, slow: Any) -> None:
    """One call each; pointers of what was allocated are those returned, in both."""
    (ours, our_stream), (theirs, their_stream) = calls
    assert our_stream == their_stream == STREAM
    for key, value, other in zip(("out", "max_logits", "lse"), fast, slow):
        assert (value is None) == (other is None)
        assert ours.pop(key) == (value.data_ptr() if value is not None else None)
        assert theirs.pop(key) == (other.data_ptr() if other is not None else None)
        if value is not None:
            assert (value.shape, value.dtype) == (other.shape, other.dtype)
        if value is not other:  # allocated: 0 says contiguous, as the strides themselves do
            strides = [name for name in ours if name.startswith(f"{key}_stride")]
            assert not any(ours.pop(name) for name in strides)
            for name, stride in zip(strides, other.stride()):
                assert theirs.pop(name) in (0, stride)
    assert ours == theirs


@pytest.mark.parametrize("name", PLAIN)
def test_the_same_arguments(calls: list, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    arguments = inputs(**PLAIN[name])
    with monkeypatch.context() as patch:
        patch.setattr(_prefill, "_Call", None)  # the general way would fail
        fast = smla.prefill(**arguments)
    compare(calls, fast, general(monkeypatch, arguments))


def test_outputs_are_allocated(calls: list, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = inputs(out=None)
    compare(calls, smla.prefill(**arguments), general(monkeypatch, arguments))


OTHER = {
    "a number as the scale": dict(sm_scale=1),
    "an expanded query": dict(query=Tensor((5, 64, 512), BF16, (0, 512, 1))),
    "expanded lists": dict(indices=Tensor((5, 1, 128), I32, (0, 0, 1))),
    "an expanded length": dict(topk_length=Tensor((5,), I32, (0,))),
    "no keys": dict(kv=Tensor((0, 1, 512), BF16)),
    "lse to write to": dict(lse=Tensor((5, 64), F32)),
    "a stream": dict(stream=STREAM),
}


@pytest.mark.parametrize("name", OTHER)
def test_what_the_general_way_serves(calls: list, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(_plain, "context", None)
    monkeypatch.setattr(_plain, "_current_stream", None)
    smla.prefill(**inputs(**OTHER[name]))
    assert len(calls) == 1


CACHES = {
    "v41, pages one after the other": (
        dict(kv=Tensor((20, 64, 1, 528), U8), kv_format="v41"),
        dict(s_kv=1280, kv_stride_token=528, kv_page_tokens=0, kv_stride_page=0),
    ),
    "v41, pages apart": (
        dict(kv=Tensor((20, 64, 1, 528), E4M3, (50000, 528, 528, 1)), kv_format="v41"),
        dict(s_kv=1280, kv_stride_token=528, kv_page_tokens=64, kv_stride_page=50000),
    ),
    "v41, pages of one token": (
        dict(kv=Tensor((20, 1, 1, 528), U8, (50000, 528, 528, 1)), kv_format="v41"),
        dict(s_kv=20, kv_stride_token=50000, kv_page_tokens=0, kv_stride_page=0),
    ),
    "v4, padded pages": (
        dict(kv=Tensor((20, 37440), U8), kv_format="v4", kv_page_tokens=64),
        dict(s_kv=1280, kv_stride_token=0, kv_page_tokens=64, kv_stride_page=37440),
    ),
    "v4, one page": (
        dict(kv=Tensor((1, 1280 * 584), U8), kv_format="v4", kv_page_tokens=1280),
        dict(s_kv=1280, kv_stride_token=0, kv_page_tokens=1280, kv_stride_page=0),
    ),
    "v41, flat": (
        dict(kv=Tensor((300, 528), U8, (544, 1)), kv_format="v41"),
        dict(s_kv=300, kv_stride_token=544, kv_page_tokens=0, kv_stride_page=0),
    ),
    "bf16, pages apart": (
        dict(kv=Tensor((20, 64, 512), BF16, (80000, 512, 1)), kv_page_tokens=64),
        dict(s_kv=1280, kv_stride_token=512, kv_page_tokens=64, kv_stride_page=80000),
    ),
    "two caches": (
        dict(
            kv=Tensor((20, 64, 1, 528), U8),
            kv_format="v41",
            extra_kv=Tensor((9, 576), U8, (1024, 1)),
            extra_kv_format="v41_fp4_planar",
            extra_kv_page_tokens=2,
            extra_indices=Tensor((5, 1, 33), I32, (40, 40, 1)),
            extra_topk_length=Tensor((5,), I32, (2,)),
        ),
        dict(
            s_kv=1280,
            extra_s_kv=18,
            extra_topk=33,
            extra_kv_stride_token=0,
            extra_kv_page_tokens=2,
            extra_kv_stride_page=1024,
            extra_indices_stride_token=40,
            extra_topk_length_stride=2,
        ),
    ),
}


@pytest.mark.parametrize("name", CACHES)
def test_caches_arrive_as_they_are(calls: list, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    changes, wanted = CACHES[name]
    monkeypatch.setattr(_plain, "context", None)
    smla.prefill(**inputs(**changes))
    ((got, stream),) = calls
    assert stream == STREAM and {key: got[key] for key in wanted} == wanted
    for key in ("kv", "extra_kv", "extra_indices", "extra_topk_length"):
        assert got[key] == (changes[key].data_ptr() if key in changes else None)


WRONG = {
    "scale": (dict(sm_scale=float("inf")), "sm_scale is inf"),
    "not a number": (dict(sm_scale=float("nan")), "sm_scale is nan"),
    "float query": (dict(query=Tensor((5, 64, 512), F32)), "query is .*f32"),
    "flat query": (dict(query=Tensor((5, 512), BF16)), "query is"),
    "column query": (dict(query=Tensor((5, 64, 512), BF16, (64 * 512, 1, 64))), "query: its last"),
    "width": (dict(kv=Tensor((300, 1, 576), BF16)), r"kv is \[300, 576\]"),
    "kv on the host": (dict(kv=Tensor((300, 1, 512), BF16, None, "cpu")), "kv is on the host and query on device 0"),
    "long lists": (dict(indices=Tensor((5, 1, 128), I64)), "indices is .*i64"),
    "lists of others": (dict(indices=Tensor((4, 1, 128), I32)), "indices is"),
    "strided lists": (dict(indices=Tensor((5, 1, 128), I32, (256, 256, 2))), "last dimension has stride 2"),
    "length": (dict(topk_length=Tensor((4,), I32)), "topk_length is"),
    "long length": (dict(topk_length=Tensor((5,), I64)), "topk_length is .*i64"),
    "sinks": (dict(attn_sink=Tensor((128,), F32)), "attn_sink is"),
    "strided sinks": (dict(attn_sink=Tensor((64,), F32, (2,))), "attn_sink: its last"),
    "out's shape": (dict(out=Tensor((5, 64, 256), BF16)), "out is"),
    "out's dtype": (dict(out=Tensor((5, 64, 512), F32)), "out is .*f32"),
    "out on the host": (dict(out=Tensor((5, 64, 512), BF16, None, "cpu")), "out is on the host"),
    "expanded out": (dict(out=Tensor((5, 64, 512), BF16, (0, 512, 1))), "out: a dimension has stride 0"),
    "expanded lse": (dict(lse=Tensor((5, 64), F32, (0, 1))), "lse: a dimension has stride 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_as_ever(calls: list, name: str) -> None:
    changes, words = WRONG[name]
    with pytest.raises(smla.InvalidArgumentError, match=words):
        smla.prefill(**inputs(**changes))
    assert not calls


def test_what_has_no_kernel(calls: list) -> None:
    a = inputs()
    with pytest.raises(smla.UnsupportedError, match="d_qk 640"):
        flash_mla_sparse_fwd(Tensor((5, 64, 640), BF16), Tensor((300, 1, 640), BF16), a["indices"], 0.1)
    with pytest.raises(smla.UnsupportedError, match="one key/value head"):
        smla.prefill(**inputs(kv=Tensor((300, 2, 512), BF16)))
    assert not calls
