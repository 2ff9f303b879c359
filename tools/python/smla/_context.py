"""One smla context a process and device, made at first need; kernels prepared once and kept by their description."""

import ctypes
import dataclasses
import logging
import os
import threading
from typing import Any, Dict, Optional, Tuple

from . import _native, _nvrtc, errors
from ._kv_format import AnyFormat, KvFormat
from ._library import library

logger = logging.getLogger("smla")
_WORKSPACE_SIZES = 4096  # remembered of a kernel


@dataclasses.dataclass(frozen=True)
class Description:
    """What a kernel is generated for: smla_kernel_desc. d_qk 0: OP_COMBINE; target None: the device's own; kv_format
    None: bf16; extra_kv_format None: no second cache."""

    h_q: int
    d_qk: int
    d_v: int = 512
    op: int = _native.OP_PREFILL
    batch_invariant: bool = False
    checked: bool = False
    not_persistent: bool = False
    target: Optional[str] = None
    kv_format: Optional[AnyFormat] = None
    extra_kv_format: Optional[AnyFormat] = None

    def to_native(self) -> _native.KernelDesc:
        formats = {**_format("kv", self.kv_format), **_format("extra_kv", self.extra_kv_format)}
        return _native.KernelDesc(
            op=self.op,
            h_q=self.h_q,
            d_qk=self.d_qk,
            d_v=self.d_v,
            batch_invariant=int(self.batch_invariant),
            flags=self.checked * _native.KERNEL_CHECKED | self.not_persistent * _native.KERNEL_NOT_PERSISTENT,
            target=self.target.encode() if self.target else None,
            **formats,
        )


def _format(cache: str, kv_format: Optional[AnyFormat]) -> Dict[str, Any]:
    """The field of smla_kernel_desc that names a cache's format, or holds its layout."""
    if kv_format is None:
        return {}
    if isinstance(kv_format, KvFormat):
        return {f"{cache}_layout": ctypes.pointer(kv_format.to_native())}
    if not isinstance(kv_format, str):
        raise errors.InvalidArgumentError(
            f"{cache}_format is a {type(kv_format).__name__}: give a preset's name or a smla.kv_formats.KvFormat"
        )
    return {f"{cache}_format": kv_format.encode()}


@dataclasses.dataclass(frozen=True)
class Support:
    """What smla would run for a description; `reason` says why not when `supported` is False."""

    supported: bool
    reason: str
    launches: int
    variants: int
    target: str
    variant: str
    kernel_id: str
    pointer_alignment: int
    stride_alignment: int
    blocks_per_sm: int  # of a persistent kernel, which keeps sm_limit; 0: it is none


@_native.LogFunction
def _log(_user: object, level: int, line: bytes) -> None:
    levels = {_native.LOG_WARNING: logging.WARNING, _native.LOG_INFO: logging.INFO}
    logger.log(levels.get(level, logging.DEBUG), "%s", line.decode(errors="replace"))


class Kernel:
    """A prepared kernel. Calls may come from any thread; the kernel lives as long as its context."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self.handle = handle
        self._workspace_sizes: Dict[Tuple[int, ...], int] = {}

    def workspace_size(self, s_q: int, topk: int) -> int:
        """Bytes of device memory that a prefill call of these sizes needs."""
        return self._workspace_size("smla_prefill_workspace_size", s_q, topk)

    def decode_workspace_size(self, b: int, s_q: int, topk: int, extra_topk: int) -> int:
        """Bytes of device memory that a decode call of these sizes needs, whatever the lengths are."""
        return self._workspace_size("smla_decode_workspace_size", b, s_q, topk, extra_topk)

    def _workspace_size(self, function: str, *sizes: int) -> int:
        """Asked once for each, while they are not many. A kernel is of one operator, so sizes alone are the key."""
        known = self._workspace_sizes.get(sizes)
        if known is None:
            size = ctypes.c_uint64()
            errors.check(library(), getattr(library(), function)(self.handle, *sizes, ctypes.byref(size)))
            if len(self._workspace_sizes) >= _WORKSPACE_SIZES:
                self._workspace_sizes.clear()
            known = self._workspace_sizes[sizes] = size.value
        return known

    def prefill(self, args: _native.PrefillArgs, stream: int) -> None:
        """Enqueues one call. stream: a CUstream; 0 is the legacy default stream."""
        native = library()
        status = native.smla_prefill(self.handle, ctypes.byref(args), stream or None)
        if status != _native.OK:
            raise errors.last_error(native, status)

    def decode(self, args: _native.DecodeArgs, stream: int) -> None:
        """Enqueues one call of a decode kernel. stream: as for prefill."""
        native = library()
        status = native.smla_decode(self.handle, ctypes.byref(args), stream or None)
        if status != _native.OK:
            raise errors.last_error(native, status)

    def combine(self, args: _native.CombineArgs, stream: int) -> None:
        """Enqueues one call of a combine kernel. stream: as for prefill."""
        native = library()
        status = native.smla_combine(self.handle, ctypes.byref(args), stream or None)
        if status != _native.OK:
            raise errors.last_error(native, status)


class Context:
    """An smla context on a device's primary CUDA context, the one that torch and the CUDA runtime use."""

    def __init__(self, device: int = 0) -> None:
        self.device = device
        self._lock = threading.Lock()
        self._kernels: Dict[Description, Kernel] = {}
        self._support: Dict[Description, Support] = {}
        self._handle = ctypes.c_void_p()
        nvrtc = _nvrtc.of_this_python()
        desc = _native.ContextDesc(
            flags=_native.CONTEXT_PRIMARY, device=device, log=_log, nvrtc_path=os.fsencode(nvrtc) if nvrtc else None
        )
        errors.check(library(), library().smla_context_create(ctypes.byref(desc), ctypes.byref(self._handle)))

    def kernel(self, description: Description) -> Kernel:
        """The kernel of a description. The first call for one compiles it or takes it from the cache, which may take a
        second; do that before capturing a CUDA graph. Raises what smla_prepare returns."""
        kernel = self._kernels.get(description)
        if kernel is None:
            with self._lock:
                kernel = self._kernels.get(description) or self._prepare(description)
                self._kernels[description] = kernel
        return kernel

    def _prepare(self, description: Description) -> Kernel:
        handle = ctypes.c_void_p()
        desc = description.to_native()
        errors.check(library(), library().smla_prepare(self._handle, ctypes.byref(desc), ctypes.byref(handle)))
        return Kernel(handle)

    def stats(self) -> Dict[str, int]:
        """The counters of smla_stats."""
        counters = _native.StatsCounters()
        errors.check(library(), library().smla_stats(self._handle, ctypes.byref(counters)))
        return {
            name: getattr(counters, name) for name, *_ in counters._fields_ if name not in ("struct_size", "reserved")
        }

    def query_support(self, description: Description) -> Support:
        """What smla would run; asked once, for the device does not change."""
        support = self._support.get(description)
        if support is None:
            support = self._support[description] = _query_support(self._handle, description)
        return support


_lock = threading.Lock()
_contexts: Dict[Tuple[int, int], Context] = {}


def context(device: int) -> Context:
    """The process's context of a device. A forked child gets one of its own (where CUDA can be used at all). Contexts
    live until the process ends: tearing CUDA down at exit races with the driver's own end."""
    key = (os.getpid(), device)
    found = _contexts.get(key)
    if found is None:
        with _lock:
            found = _contexts.get(key) or Context(device)
            _contexts[key] = found
    return found


def _query_support(handle: Optional[ctypes.c_void_p], description: Description) -> Support:
    out = _native.Support()
    desc = description.to_native()
    errors.check(library(), library().smla_query_support(handle, ctypes.byref(desc), ctypes.byref(out)))
    return Support(
        bool(out.supported),
        out.reason.decode(),
        out.launches,
        out.variants,
        out.target.decode(),
        out.variant.decode(),
        out.kernel_id.decode(),
        out.pointer_alignment,
        out.stride_alignment,
        out.blocks_per_sm,
    )


def query_support(
    h_q: int,
    d_qk: int,
    d_v: int = 512,
    *,
    kv_format: Optional[AnyFormat] = None,
    extra_kv_format: Optional[AnyFormat] = None,
    not_persistent: bool = False,
    decode: bool = False,
    target: Optional[str] = None,
    device: int = 0,
) -> Support:
    """Tells whether a shape can be served, and how. Formats and not_persistent: as for prepare. decode: by decode(),
    not by prefill(). With a target no device is needed."""
    description = Description(
        h_q,
        d_qk,
        d_v,
        op=_native.OP_DECODE if decode else _native.OP_PREFILL,
        not_persistent=not_persistent,
        target=target,
        kv_format=kv_format,
        extra_kv_format=extra_kv_format,
    )
    return _query_support(None, description) if target else context(device).query_support(description)


def prepare(
    h_q: int,
    d_qk: int,
    d_v: int = 512,
    *,
    kv_format: Optional[AnyFormat] = None,
    extra_kv_format: Optional[AnyFormat] = None,
    batch_invariant: bool = False,
    not_persistent: bool = False,
    device: int = 0,
) -> None:
    """Makes a shape's kernel ready on a device, as the first call would. kv_format: a preset's name or a
    smla.kv_formats.KvFormat; None is bf16. extra_kv_format: of a second cache, bf16 named too; None is no second cache.
    not_persistent: SMLA_KERNEL_NOT_PERSISTENT. Raises what smla_prepare returns."""
    description = Description(
        h_q,
        d_qk,
        d_v,
        batch_invariant=batch_invariant,
        not_persistent=not_persistent,
        kv_format=None if kv_format == "bf16" else kv_format,
        extra_kv_format=extra_kv_format,
    )
    context(device).kernel(description)


def prepare_decode(
    h_q: int,
    d_qk: int,
    d_v: int = 512,
    *,
    kv_format: Optional[AnyFormat] = None,
    extra_kv_format: Optional[AnyFormat] = None,
    batch_invariant: bool = False,
    device: int = 0,
) -> None:
    """Makes decode's kernel for a shape ready on a device, as the first call of decode() would. Formats: as for
    prepare."""
    _decode_kernel(h_q, d_qk, d_v, kv_format, extra_kv_format, batch_invariant, device)


def decode_workspace_size(
    h_q: int,
    d_qk: int,
    d_v: int = 512,
    *,
    max_b: int,
    max_s_q: int,
    max_topk: int,
    max_extra_topk: int = 0,
    kv_format: Optional[AnyFormat] = None,
    extra_kv_format: Optional[AnyFormat] = None,
    batch_invariant: bool = False,
    device: int = 0,
) -> int:
    """Bytes that decode() needs as workspace= for calls of up to these sizes, whatever the lengths are: asked once, for
    the largest shapes. 0: these calls need none. The rest describes the kernel, which is made ready, as for
    prepare_decode; max_extra_topk is 0 for one of one cache. Raises what smla_decode_workspace_size returns."""
    kernel = _decode_kernel(h_q, d_qk, d_v, kv_format, extra_kv_format, batch_invariant, device)
    return kernel.decode_workspace_size(max_b, max_s_q, max_topk, max_extra_topk)


def _decode_kernel(
    h_q: int,
    d_qk: int,
    d_v: int,
    kv_format: Optional[AnyFormat],
    extra_kv_format: Optional[AnyFormat],
    batch_invariant: bool,
    device: int,
) -> Kernel:
    description = Description(
        h_q,
        d_qk,
        d_v,
        op=_native.OP_DECODE,
        batch_invariant=batch_invariant,
        kv_format=None if kv_format == "bf16" else kv_format,
        extra_kv_format=extra_kv_format,
    )
    return context(device).kernel(description)


def prepare_combine(h_q: int, d_v: int = 512, *, device: int = 0) -> None:
    """Makes combine's kernel for these heads ready on a device, for every pair of types, as the first call would."""
    context(device).kernel(Description(h_q, 0, d_v, op=_native.OP_COMBINE))


def stats(device: int = 0) -> Dict[str, int]:
    """The counters of the device's context: compilations, cache hits, kernels loaded."""
    return context(device).stats()
