"""Which backend serves smla.deepinfer: chosen by DEEPINFER_SPARSE_MLA_BACKEND, else the first that imports."""

import importlib
import logging
import os
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ._library import library
from .errors import SmlaError

VARIABLE = "DEEPINFER_SPARSE_MLA_BACKEND"
SIMULATE_NO_TILELANG = "DEEPINFER_SIMULATE_NO_TILELANG"
CHOICES = ("tilelang", "triton", "smla")
ENTRY_POINTS = ("prefill_attn_varlen_sparse", "decode_attn_sparse")

logger = logging.getLogger("smla.deepinfer")


class BackendError(RuntimeError):
    """The variable names no backend, the one it names does not load, or none does."""


class Backend(NamedTuple):
    """A backend that has loaded: its name, and its two entry points with the signatures of smla.deepinfer."""

    name: str
    prefill: Callable[..., Any]
    decode: Callable[..., Any]


Loader = Callable[[], Any]


def _adapter(framework: str) -> Any:
    """The engine's own kernels of a framework: module deepinfer_sparse_mla_<framework>, after the framework itself."""
    importlib.import_module(framework)
    return importlib.import_module(f"deepinfer_sparse_mla_{framework}")


def _load_tilelang() -> Any:
    if os.environ.get(SIMULATE_NO_TILELANG) == "1":
        raise ImportError(f"{SIMULATE_NO_TILELANG} is 1")
    return _adapter("tilelang")


def _load_triton() -> Any:
    return _adapter("triton")


def _load_smla() -> Any:
    library()  # an import that cannot run is none
    return importlib.import_module("smla._deepinfer_smla")


_loaders: Dict[str, Loader] = {"tilelang": _load_tilelang, "triton": _load_triton, "smla": _load_smla}
_lock = threading.Lock()
_selected: Optional[Backend] = None
_calls: Dict[Tuple[str, str], int] = {}


def register_loader(name: str, loader: Loader) -> Loader:
    """Replaces how a backend is loaded, and forgets the selection. loader: returns a module or object that has both
    entry points, or raises. Returns the former loader."""
    if name not in CHOICES:
        raise BackendError(_unknown(name))
    former, _loaders[name] = _loaders[name], loader
    reset()
    return former


def reset() -> None:
    """Forgets the selection and the counters; the next call selects again."""
    global _selected
    with _lock:
        _selected = None
        _calls.clear()


def _unknown(name: str) -> str:
    return f"{VARIABLE} '{name}': the choices are {', '.join(CHOICES)}; unset, the first of them that imports"


def _load(name: str) -> Backend:
    module = _loaders[name]()
    return Backend(name, *(getattr(module, entry) for entry in ENTRY_POINTS))


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _choose() -> Tuple[Backend, str]:
    name = os.environ.get(VARIABLE, "")
    if name:
        if name not in CHOICES:
            raise BackendError(_unknown(name))
        try:
            return _load(name), f"{VARIABLE} names it"
        except Exception as error:
            raise BackendError(
                f"{VARIABLE} is '{name}', which does not load ({_why(error)}); nothing else is used in its place"
            ) from error
    failures: List[str] = []
    for name in CHOICES:
        try:
            return _load(name), "; ".join(["the first that imports"] + failures)
        except (ImportError, AttributeError, OSError, SmlaError) as error:
            failures.append(f"{name} does not ({_why(error)})")
    raise BackendError(f"no sparse MLA backend: {'; '.join(failures)}")


def select() -> Backend:
    """The process's backend: chosen at the first call, logged once, kept. BackendError says what is wrong."""
    global _selected
    backend = _selected
    if backend is None:
        with _lock:
            if _selected is None:
                _selected, reason = _choose()
                logger.info("sparse MLA backend: %s (%s)", _selected.name, reason)
            backend = _selected
    return backend


def call(entry: str, *arguments: Any, **options: Any) -> Any:
    """Calls an entry point ("prefill" or "decode") of the selected backend, and counts who served it. What it raises
    goes to the caller: no other backend is tried."""
    backend = select()
    result = getattr(backend, entry)(*arguments, **options)
    with _lock:
        _calls[backend.name, entry] = _calls.get((backend.name, entry), 0) + 1
    return result


def calls() -> Dict[Tuple[str, str], int]:
    """Calls that came back, by (backend, entry point)."""
    with _lock:
        return dict(_calls)


def fallbacks() -> int:
    """Calls that another backend than the selected one served. Nothing falls back, so anything but 0 is a fault."""
    with _lock:
        selected = _selected.name if _selected else None
        return sum(count for (name, _), count in _calls.items() if name != selected)
