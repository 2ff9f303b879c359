"""The few calls of the CUDA driver that host arrays need: memory, copies, waiting. The driver is the one smla uses."""

import contextlib
import ctypes
import os
import threading
from typing import Dict, Iterator, Optional

from .errors import DriverError, UnavailableError

_lock = threading.Lock()
_driver: Optional["Driver"] = None
_ATTRIBUTE_DEVICE_ORDINAL = 9
_ERROR_INVALID_CONTEXT = 201


def path() -> str:
    """SMLA_DRIVER, else the system's libcuda.so.1."""
    return os.environ.get("SMLA_DRIVER") or "libcuda.so.1"


class Driver:
    """The driver library, opened and initialised."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(path())
        except OSError as error:
            raise UnavailableError(f"cannot open the CUDA driver: {error}", path=path()) from None
        self._contexts: Dict[int, ctypes.c_void_p] = {}
        self._pid = os.getpid()
        self._call("cuInit", ctypes.c_uint(0))

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            raise DriverError(f"{name} failed: {self._error_name(result)} ({result})", result)

    def _error_name(self, result: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(result, ctypes.byref(text))
        return text.value.decode() if text.value else "CUresult"

    @contextlib.contextmanager
    def device(self, ordinal: int) -> Iterator[None]:
        """Makes the device's primary context current for the block. It stays retained for the life of the process."""
        with _lock:
            if ordinal not in self._contexts:
                handle = ctypes.c_void_p()
                self._call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), ctypes.c_int(ordinal))
                self._contexts[ordinal] = handle
        self._call("cuCtxPushCurrent_v2", self._contexts[ordinal])
        try:
            yield
        finally:
            self._library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def allocate(self, size_bytes: int) -> int:
        """Device memory of the current context; at least one byte."""
        pointer = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(size_bytes, 1)))
        return pointer.value

    def free(self, pointer: int) -> None:
        """Frees it; an error is left for the next call to tell (a fault of a kernel comes back from every call)."""
        self._library.cuMemFree_v2(ctypes.c_uint64(pointer))

    def copy_in(self, device_pointer: int, host_pointer: int, size_bytes: int) -> None:
        if size_bytes:
            self._call(
                "cuMemcpyHtoD_v2",
                ctypes.c_uint64(device_pointer),
                ctypes.c_void_p(host_pointer),
                ctypes.c_size_t(size_bytes),
            )

    def copy_out(self, host_pointer: int, device_pointer: int, size_bytes: int) -> None:
        if size_bytes:
            self._call(
                "cuMemcpyDtoH_v2",
                ctypes.c_void_p(host_pointer),
                ctypes.c_uint64(device_pointer),
                ctypes.c_size_t(size_bytes),
            )

    def synchronize(self, stream: int) -> None:
        """Waits for a stream of the current context."""
        self._call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def device_of(self, pointer: int) -> int:
        """The ordinal of the device that a pointer belongs to."""
        ordinal = ctypes.c_int(-1)
        query = (
            "cuPointerGetAttribute",
            ctypes.byref(ordinal),
            ctypes.c_int(_ATTRIBUTE_DEVICE_ORDINAL),
            ctypes.c_uint64(pointer),
        )
        try:
            self._call(*query)
        except DriverError as error:
            if error.native_code != _ERROR_INVALID_CONTEXT:
                raise
            with self.device(0):  # the question needs a current context, whichever
                self._call(*query)
        return ordinal.value


def driver() -> Driver:
    """The driver, opened at first need. UnavailableError when there is none; DriverError when it does not start."""
    global _driver
    if _driver is None or _driver._pid != os.getpid():
        with _lock:
            if _driver is None or _driver._pid != os.getpid():
                _driver = Driver()
    return _driver
