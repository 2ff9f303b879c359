"""The NVRTC of the running Python: the wheel that torch brings, or one that was installed by itself."""

import glob
import importlib.util
import os
from typing import Optional, Tuple

_OLDEST = (12, 8)


def _version(library: str) -> Tuple[int, ...]:
    """(major, minor), by the name of the builtins beside the library; () when there are none."""
    for path in glob.glob(os.path.join(glob.escape(os.path.dirname(library)), "libnvrtc-builtins.so.*")):
        words = path.rsplit(".so.", 1)[1].split(".")
        if len(words) == 2 and all(word.isdigit() for word in words):
            return tuple(int(word) for word in words)
    return ()


def _in_process() -> bool:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return any("/libnvrtc.so" in line for line in maps)
    except OSError:
        return False


def of_this_python() -> Optional[str]:
    """The path for smla_context_desc.nvrtc_path. None, so that the library's own rule holds, when SMLA_NVRTC names one,
    when the process has one already, or when no wheel here is new enough. Imports and loads nothing."""
    if os.environ.get("SMLA_NVRTC") or _in_process():
        return None
    spec = importlib.util.find_spec("nvidia")
    folders = (spec.submodule_search_locations if spec else None) or []
    found = [
        (_version(path), path)
        for folder in folders
        for path in glob.glob(os.path.join(glob.escape(folder), "*", "lib", "libnvrtc.so.*"))
    ]
    version, path = max(found, default=((), ""))
    return path if version >= _OLDEST else None
