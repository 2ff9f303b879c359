"""One exception class a status of smla.h; all are SmlaError, and Python's own class of that kind where there is one."""

import ctypes
from typing import Dict, Type

from . import _native


class SmlaError(Exception):
    """A call of smla failed.

    message: what was asked, what the limit is, what would work.
    native_code: CUresult, nvrtcResult or errno, by the sentence in `message`; 0 when none.
    path: the file or folder concerned, or "". log: the compiler's or the driver's own log, or "".
    """

    status = _native.ERROR_INTERNAL

    def __init__(self, message: str, native_code: int = 0, path: str = "", log: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.native_code = native_code
        self.path = path
        self.log = log

    def __str__(self) -> str:
        return f"{self.message}\n{self.log}" if self.log else self.message


class InvalidArgumentError(SmlaError, ValueError):
    """Fix the call."""

    status = _native.ERROR_INVALID_ARGUMENT


class UnsupportedError(SmlaError, NotImplementedError):
    """Describe another kernel or target."""

    status = _native.ERROR_UNSUPPORTED


class UnavailableError(SmlaError, RuntimeError):
    """The library, driver, device or compiler is missing here or too old."""

    status = _native.ERROR_UNAVAILABLE


class NotCachedError(SmlaError, RuntimeError):
    """The kernel is not in the cache and compiling is switched off."""

    status = _native.ERROR_NOT_CACHED


class CompileError(SmlaError, RuntimeError):
    """The kernel did not compile; `log` is the compiler's."""

    status = _native.ERROR_COMPILE


class FileError(SmlaError, RuntimeError):
    """A file or folder cannot be used: `path`, `native_code` is the errno."""

    status = _native.ERROR_IO


class OutOfMemoryError(SmlaError, MemoryError):
    """Out of memory."""

    status = _native.ERROR_OUT_OF_MEMORY


class DriverError(SmlaError, RuntimeError):
    """A call of the CUDA driver failed; `native_code` is the CUresult."""

    status = _native.ERROR_DRIVER


class InternalError(SmlaError, RuntimeError):
    """A fault in smla: please report it."""

    status = _native.ERROR_INTERNAL


class CompileTimeoutError(SmlaError, TimeoutError):
    """SMLA_COMPILE_LIMIT_MS is over; the kernel is being compiled, and may be asked for again."""

    status = _native.ERROR_TIMEOUT


class SelfTestError(SmlaError, RuntimeError):
    """The kernel computes wrong results on this device: the message says which element of which variant."""

    status = _native.ERROR_SELF_TEST


CLASSES: Dict[int, Type[SmlaError]] = {
    kind.status: kind
    for kind in (
        InvalidArgumentError,
        UnsupportedError,
        UnavailableError,
        NotCachedError,
        CompileError,
        FileError,
        OutOfMemoryError,
        DriverError,
        InternalError,
        CompileTimeoutError,
        SelfTestError,
    )
}


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def last_error(library: ctypes.CDLL, status: int) -> SmlaError:
    """The exception for a status that `library` has just returned on this thread."""
    info = _native.ErrorInfo()
    library.smla_last_error(ctypes.byref(info))
    message = _text(info.message) or _text(library.smla_status_text(status))
    return CLASSES.get(status, InternalError)(message, info.native_code, _text(info.path), _text(info.log))


def check(library: ctypes.CDLL, status: int) -> None:
    """Raises what a status other than OK stands for."""
    if status != _native.OK:
        raise last_error(library, status)
