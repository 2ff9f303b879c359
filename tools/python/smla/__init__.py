"""smla: sparse multi-head latent attention as a library call. Pure ctypes over libsmla.so; needs no other package.

prefill() is the whole operator, over one or two caches of any format; decode() is the same for a few tokens of each of
some requests; combine() merges results over shards of the keys. flash_mla, flashinfer_trace and deepinfer have the
signatures of those call sites; kv_formats reads and writes the quantised caches, whose layouts kv_layout() tells.
"""

from ._combine import combine
from ._context import (
    Event,
    Preparation,
    Support,
    decode_workspace_size,
    events,
    prepare,
    prepare_combine,
    prepare_decode,
    query_support,
    seal,
    stats,
    stats_json,
)
from ._decode import decode
from ._kv_format import kv_layout
from ._library import library
from ._prefill import prefill
from ._tensor import DeviceTensor
from .errors import (
    CompileError,
    CompileTimeoutError,
    DriverError,
    FileError,
    InternalError,
    InvalidArgumentError,
    NotCachedError,
    OutOfMemoryError,
    SelfTestError,
    SmlaError,
    UnavailableError,
    UnsupportedError,
)

__version__ = "0.1.0"


def native_version() -> str:
    """The version of libsmla.so."""
    return library().smla_version().decode()


__all__ = [
    "CompileError",
    "CompileTimeoutError",
    "DeviceTensor",
    "DriverError",
    "Event",
    "FileError",
    "InternalError",
    "InvalidArgumentError",
    "NotCachedError",
    "OutOfMemoryError",
    "Preparation",
    "SelfTestError",
    "SmlaError",
    "Support",
    "UnavailableError",
    "UnsupportedError",
    "combine",
    "decode",
    "decode_workspace_size",
    "events",
    "kv_layout",
    "native_version",
    "prefill",
    "prepare",
    "prepare_combine",
    "prepare_decode",
    "query_support",
    "seal",
    "stats",
    "stats_json",
]
