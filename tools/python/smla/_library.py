"""Finds and opens libsmla.so, once a process."""

import ctypes
import os
import pathlib
import threading
from typing import Iterator, List, Optional

from . import _native
from .errors import UnavailableError

_NAMES = ("libsmla.so.0", "libsmla.so")
_lock = threading.Lock()
_library: Optional[ctypes.CDLL] = None


def candidates() -> Iterator[str]:
    """Where the library may lie, best first: SMLA_LIBRARY alone when it is set; beside this package; the build folders
    of the checkout that this package lies in; the system's search."""
    chosen = os.environ.get("SMLA_LIBRARY")
    if chosen:
        yield chosen
        return
    here = pathlib.Path(__file__).resolve().parent
    folders = [here]
    if here.parent.name == "python" and len(here.parents) > 2:
        build = here.parents[2] / "build"
        folders += [build / "lib", build / "gcc" / "lib", build / "clang" / "lib"]
    for folder in folders:
        for name in _NAMES:
            if (folder / name).exists():
                yield str(folder / name)
    yield from _NAMES


def _open() -> ctypes.CDLL:
    tried: List[str] = []
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            tried.append(str(error))
            continue
        try:
            _native.bind(library)
        except AttributeError as error:
            raise UnavailableError(
                f"{path} is not a libsmla.so that this package can use: {error}", path=path
            ) from None
        if library.smla_abi_version() != _native.ABI_VERSION:
            raise UnavailableError(
                f"{path} has interface {library.smla_abi_version()}, this package was written for "
                f"{_native.ABI_VERSION}: install the two of one version",
                path=path,
            )
        return library
    raise UnavailableError(
        "cannot open libsmla.so: set SMLA_LIBRARY to its path, or build it (cmake --preset default && "
        "cmake --build --preset default). Tried: " + "; ".join(tried)
    )


def library() -> ctypes.CDLL:
    """The library with its functions' types set. UnavailableError when there is none or it is of another interface."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _open()
    return _library
