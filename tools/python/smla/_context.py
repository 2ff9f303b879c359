"""One smla context a process and device, made at first need; kernels prepared once and kept by their description."""

import atexit
import ctypes
import dataclasses
import json
import logging
import math
import os
import threading
import time
import weakref
from typing import Any, Dict, List, Optional, Tuple

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

    def workspace_size(self, s_q: int, topk: int, s_kv: int) -> int:
        """Bytes of device memory that make a prefill call of these sizes as fast as it can be."""
        return self._workspace_size("smla_prefill_wanted_workspace_size", s_q, topk, s_kv)

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
        # A thread of the library's outlives the interpreter, and would call _log without one.
        atexit.register(library().smla_context_mute, self._handle)

    def kernel(self, description: Description) -> Kernel:
        """The kernel of a description. The first call for one compiles it or takes it from the cache, which may take a
        second; do that before capturing a CUDA graph. Raises what smla_prepare returns."""
        kernel = self._kernels.get(description)
        if kernel is None:
            with self._lock:
                kernel = self._kernels.get(description) or self.keep(description, self._prepare(description))
        return kernel

    def has(self, description: Description) -> bool:
        """Whether the kernel of a description is ready."""
        return description in self._kernels

    def keep(self, description: Description, kernel: Kernel) -> Kernel:
        """The kernel that calls take from now on: this one, or the one that another thread made ready before."""
        kept = self._kernels.setdefault(description, kernel)
        if kept is not kernel:
            library().smla_kernel_destroy(kernel.handle)
        return kept

    def start(self, description: Description) -> ctypes.c_void_p:
        """The handle of a preparation of smla_prepare_start."""
        handle = ctypes.c_void_p()
        desc = description.to_native()
        errors.check(library(), library().smla_prepare_start(self._handle, ctypes.byref(desc), ctypes.byref(handle)))
        return handle

    def seal(self) -> None:
        """smla_context_seal: what would have to be compiled is an error from now on."""
        errors.check(library(), library().smla_context_seal(self._handle))

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

    def stats_json(self) -> str:
        """The text of smla_stats_json. Events come in meanwhile, so that it may not fit the first time."""
        native, size = library(), ctypes.c_size_t(0)
        errors.check(native, native.smla_stats_json(self._handle, None, 0, ctypes.byref(size)))
        while True:
            text = ctypes.create_string_buffer(size.value + 4096)
            status = native.smla_stats_json(self._handle, text, len(text), ctypes.byref(size))
            if status == _native.OK:
                return text.value.decode()
            if size.value <= len(text):
                raise errors.last_error(native, status)

    def query_support(self, description: Description) -> Support:
        """What smla would run; asked once, for the device does not change."""
        support = self._support.get(description)
        if support is None:
            support = self._support[description] = _query_support(self._handle, description)
        return support


class Preparation:
    """A kernel that is being made ready in a thread of the library: pending, then ready or failed, for good. Any thread
    may ask. One that is dropped before it has begun never does; what was under way is kept for who asks next."""

    def __init__(self, context: Context, description: Description) -> None:
        self._context = context
        self._description = description
        self._lock = threading.Lock()
        self._taken = context.has(description)
        if not self._taken:
            self._handle = context.start(description)
            weakref.finalize(self, library().smla_prepare_destroy, self._handle).atexit = False

    def ready(self) -> bool:
        """Whether it is ready, without waiting: the first call of that shape finds its kernel then. Raises why it
        failed, each time."""
        return self.wait(0)

    def wait(self, timeout: Optional[float] = None) -> bool:
        """As ready(), after waiting until it is no longer pending, at most `timeout` seconds. Other threads run
        meanwhile, and signals are handled."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._taken:
            left_ms = max(0.0, end - time.monotonic()) * 1000
            status = library().smla_prepare_wait(self._handle, int(min(left_ms, _SLICE_MS)), None)
            if status != _native.PENDING:
                self._take()
            elif left_ms <= 0:
                return False
        return True

    def _take(self) -> None:
        """Hands the kernel to the context, once: the library gives it to one thread."""
        with self._lock:
            if not self._taken:
                kernel = ctypes.c_void_p()
                errors.check(library(), library().smla_prepare_poll(self._handle, ctypes.byref(kernel)))
                self._context.keep(self._description, Kernel(kernel))
                self._taken = True


@dataclasses.dataclass(frozen=True)
class Event:
    """What a context did, one thing of it (smla_event)."""

    number: int  # the context's first is 0
    time_ns: int  # when it was over, since 1970 (UTC)
    duration_ns: int  # 0: it took no time worth telling
    kind: str  # "compile-end", …: a word of SMLA_EVENT_LIST
    status: int  # of what failed
    tier: str  # none, memory, bundle, system, cache
    kernel_id: str  # "": it is about no kernel, or several
    kernel: str  # its description
    message: str


_EVENT_FIELDS = tuple(field.name for field in dataclasses.fields(Event))
_SLICE_MS = 100  # of a wait, after which the interpreter looks for signals

_lock = threading.Lock()
_contexts: Dict[Tuple[int, int], Context] = {}


def context(device: int) -> Context:
    """The process's context of a device. A forked child gets one of its own (where CUDA can be used at all). Contexts
    live until the process ends: tearing CUDA down at exit races with the driver's own end, and what a thread compiles
    or loads then the library's exit handler waits for (smla.h)."""
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
    background: bool = False,
    device: int = 0,
) -> Optional[Preparation]:
    """Makes a shape's kernel ready on a device, as the first call would. kv_format: a preset's name or a
    smla.kv_formats.KvFormat; None is bf16. extra_kv_format: of a second cache, bf16 named too; None is no second cache.
    not_persistent: SMLA_KERNEL_NOT_PERSISTENT. Raises what smla_prepare returns.

    background: does not wait for it, and returns a smla.Preparation to ask, which raises that instead."""
    description = Description(
        h_q,
        d_qk,
        d_v,
        batch_invariant=batch_invariant,
        not_persistent=not_persistent,
        kv_format=None if kv_format == "bf16" else kv_format,
        extra_kv_format=extra_kv_format,
    )
    return _make_ready(description, background, device)


def prepare_decode(
    h_q: int,
    d_qk: int,
    d_v: int = 512,
    *,
    kv_format: Optional[AnyFormat] = None,
    extra_kv_format: Optional[AnyFormat] = None,
    batch_invariant: bool = False,
    background: bool = False,
    device: int = 0,
) -> Optional[Preparation]:
    """Makes decode's kernel for a shape ready on a device, as the first call of decode() would. Formats, background: as
    for prepare."""
    description = _decode_description(h_q, d_qk, d_v, kv_format, extra_kv_format, batch_invariant)
    return _make_ready(description, background, device)


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
    description = _decode_description(h_q, d_qk, d_v, kv_format, extra_kv_format, batch_invariant)
    return context(device).kernel(description).decode_workspace_size(max_b, max_s_q, max_topk, max_extra_topk)


def _decode_description(
    h_q: int,
    d_qk: int,
    d_v: int,
    kv_format: Optional[AnyFormat],
    extra_kv_format: Optional[AnyFormat],
    batch_invariant: bool,
) -> Description:
    return Description(
        h_q,
        d_qk,
        d_v,
        op=_native.OP_DECODE,
        batch_invariant=batch_invariant,
        kv_format=None if kv_format == "bf16" else kv_format,
        extra_kv_format=extra_kv_format,
    )


def prepare_combine(h_q: int, d_v: int = 512, *, background: bool = False, device: int = 0) -> Optional[Preparation]:
    """Makes combine's kernel for these heads ready on a device, for every pair of types, as the first call would.
    background: as for prepare."""
    return _make_ready(Description(h_q, 0, d_v, op=_native.OP_COMBINE), background, device)


def _make_ready(description: Description, background: bool, device: int) -> Optional[Preparation]:
    if background:
        return Preparation(context(device), description)
    context(device).kernel(description)
    return None


def seal(device: int = 0) -> None:
    """Ends a device's warm-up: from now on nothing is compiled for it in this process, and a kernel that no bundle and
    no cache has raises NotCachedError, with the smla-gen line that builds it. There is no way back."""
    context(device).seal()


def stats(device: int = 0) -> Dict[str, int]:
    """The counters of the device's context: compilations, cache hits, kernels loaded."""
    return context(device).stats()


def stats_json(device: int = 0) -> str:
    """The counters and the last events as one JSON object, for a metrics endpoint or a bug report."""
    return context(device).stats_json()


def events(since: int = 0, device: int = 0) -> List[Event]:
    """What the device's context did last, the oldest first: at most 256 events. since: one more than the number of the
    last event that was read; when the first has a greater number, those between are gone. Calls make no events."""
    found = json.loads(context(device).stats_json())["events"]
    return [Event(**{name: event[name] for name in _EVENT_FIELDS}) for event in found if event["number"] >= since]
