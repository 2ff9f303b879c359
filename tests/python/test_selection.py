"""Which backend serves: every combination of variable and importable backends, for both entry points."""

import itertools
import logging
import sys
import types
from typing import Iterator, List, Optional

import pytest

from smla import _backends, deepinfer

NAMES = ("tilelang", "triton", "smla")
ENTRIES = ("prefill", "decode")


def call(entry: str) -> object:
    if entry == "prefill":
        return deepinfer.prefill_attn_varlen_sparse("q", "kv", "index", 0.5)
    return deepinfer.decode_attn_sparse("q", "kv", "index", 0.5, kv_format="v41")


def module_of(name: str) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        prefill_attn_varlen_sparse=lambda *a, **k: (name, "prefill", a, k),
        decode_attn_sparse=lambda *a, **k: (name, "decode", a, k),
    )


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    former = dict(_backends._loaders)
    for variable in (_backends.VARIABLE, _backends.SIMULATE_NO_TILELANG):
        monkeypatch.delenv(variable, raising=False)
    deepinfer.reset()
    yield
    assert deepinfer.fallbacks() == 0
    _backends._loaders.update(former)
    deepinfer.reset()


def make_importable(names: List[str]) -> None:
    def loader(name: str):
        def load() -> types.SimpleNamespace:
            if name not in names:
                raise ImportError(f"no module named {name}")
            return module_of(name)

        return load

    for name in NAMES:
        deepinfer.register_loader(name, loader(name))


SUBSETS = [list(names) for count in range(4) for names in itertools.combinations(NAMES, count)]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("variable", [None, "", "tilelang", "triton", "smla", "cuda"])
@pytest.mark.parametrize("importable", SUBSETS, ids="+".join)
def test_every_combination(
    monkeypatch: pytest.MonkeyPatch, importable: List[str], variable: Optional[str], entry: str
) -> None:
    make_importable(importable)
    if variable is not None:
        monkeypatch.setenv(_backends.VARIABLE, variable)
    if variable == "cuda":
        with pytest.raises(deepinfer.BackendError, match="'cuda': the choices are tilelang, triton, smla"):
            call(entry)
    elif variable and variable not in importable:
        with pytest.raises(deepinfer.BackendError, match=f"is '{variable}', which does not load .*no module"):
            call(entry)
    elif not variable and not importable:
        with pytest.raises(deepinfer.BackendError, match="no sparse MLA backend: tilelang does not"):
            call(entry)
    else:
        chosen = variable or next(name for name in NAMES if name in importable)
        assert call(entry)[:2] == (chosen, entry)
        assert deepinfer.calls() == {(chosen, entry): 1} and deepinfer.select().name == chosen


def test_arguments_arrive_as_they_were_given() -> None:
    make_importable(["triton"])
    name, entry, arguments, options = deepinfer.prefill_attn_varlen_sparse("q", "kv", "i", 0.5, "sink", "length")
    assert arguments == ("q", "kv", "i", 0.5) and options == {"attn_sink": "sink", "index_length": "length"}
    options = deepinfer.decode_attn_sparse("q", "kv", "i", 0.5, kv_format="v4", extra_kv_cache="x", extra_indices="y")[
        3
    ]
    assert options["kv_format"] == "v4" and options["extra_kv_cache"] == "x" and options["extra_indices"] == "y"


def test_it_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    make_importable(["triton", "smla"])
    with caplog.at_level(logging.INFO, logger="smla.deepinfer"):
        for entry in ENTRIES * 3:
            call(entry)
    assert [record.message for record in caplog.records] == [
        "sparse MLA backend: triton (the first that imports; tilelang does not (ImportError: no module named tilelang))"
    ]
    assert deepinfer.calls() == {("triton", "prefill"): 3, ("triton", "decode"): 3}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_failing_call_is_not_served_by_another(entry: str) -> None:
    make_importable(["tilelang", "smla"])

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the kernel failed")

    broken = types.SimpleNamespace(prefill_attn_varlen_sparse=fail, decode_attn_sparse=fail)
    deepinfer.register_loader("tilelang", lambda: broken)
    with pytest.raises(RuntimeError, match="the kernel failed"):
        call(entry)
    assert deepinfer.select().name == "tilelang" and deepinfer.calls() == {}


def test_a_backend_that_breaks_while_loading_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    make_importable(["smla"])
    deepinfer.register_loader("triton", lambda: 1 / 0)
    monkeypatch.setenv(_backends.VARIABLE, "triton")
    with pytest.raises(deepinfer.BackendError, match="ZeroDivisionError"):
        call("decode")


def test_the_engines_own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """TileLang counts when both it and the engine's adapter import; DEEPINFER_SIMULATE_NO_TILELANG=1 hides it."""
    deepinfer.register_loader("smla", lambda: module_of("smla"))
    monkeypatch.setitem(sys.modules, "tilelang", types.ModuleType("tilelang"))
    monkeypatch.setitem(sys.modules, "triton", None)
    assert call("prefill")[0] == "smla"
    monkeypatch.setitem(sys.modules, "deepinfer_sparse_mla_tilelang", module_of("tilelang"))
    deepinfer.reset()
    assert call("prefill")[0] == "tilelang"
    monkeypatch.setenv(_backends.SIMULATE_NO_TILELANG, "1")
    deepinfer.reset()
    assert call("prefill")[0] == "smla"
    monkeypatch.setenv(_backends.VARIABLE, "tilelang")
    deepinfer.reset()
    with pytest.raises(deepinfer.BackendError, match="DEEPINFER_SIMULATE_NO_TILELANG is 1"):
        call("decode")


def test_smla_without_its_library_is_no_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    from smla import UnavailableError

    def missing() -> None:
        raise UnavailableError("cannot open libsmla.so")

    monkeypatch.setattr(_backends, "library", missing)
    monkeypatch.setitem(sys.modules, "tilelang", None)
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(deepinfer.BackendError, match="smla does not .*cannot open libsmla.so"):
        call("prefill")


def test_registering_an_unknown_name() -> None:
    with pytest.raises(deepinfer.BackendError, match="'cutlass'"):
        deepinfer.register_loader("cutlass", lambda: None)
