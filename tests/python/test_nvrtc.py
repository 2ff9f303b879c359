"""Which libnvrtc serves a Python process: the one named, the one loaded, the running Python's wheel."""

import os
import pathlib
import subprocess
import sys
from typing import Dict, Optional

import pytest

from conftest import ROOT

SCRIPT = """
import ctypes, os, sys
sys.path.insert(0, os.environ["PACKAGE"])
for path in sys.argv[2:]:
    ctypes.CDLL(path)  # as torch does
from smla import _nvrtc
print(_nvrtc.of_this_python())
if sys.argv[1] == "prepare":
    import smla
    smla.prepare_combine(8)
    with open("/proc/self/maps") as maps:
        print(*sorted({line.split()[-1] for line in maps if "/libnvrtc.so" in line}), sep="\\n")
"""


def run(action: str, site: pathlib.Path, *loaded: str, nvrtc: Optional[str] = None) -> list:
    environment: Dict[str, str] = {**os.environ, "PACKAGE": str(ROOT / "tools" / "python"), "PYTHONPATH": str(site)}
    environment.pop("SMLA_NVRTC", None)
    environment["SMLA_CACHE"] = "off"
    if nvrtc:
        environment["SMLA_NVRTC"] = nvrtc
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, action, *loaded], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    return done.stdout.split("\n")[:-1]


def make_wheel(site: pathlib.Path, folder: str, version: str) -> str:
    """What a wheel of NVRTC leaves below site-packages."""
    library = site / "nvidia" / folder / "lib"
    library.mkdir(parents=True)
    (library / f"libnvrtc-builtins.so.{version}").touch()
    path = library / f"libnvrtc.so.{version.split('.')[0]}"
    path.touch()
    return str(path)


def test_newest_wheel_of_this_python(tmp_path: pathlib.Path) -> None:
    assert run("tell", tmp_path) == ["None"]
    make_wheel(tmp_path, "older", "12.6")
    assert run("tell", tmp_path) == ["None"]
    old = make_wheel(tmp_path, "cuda_nvrtc", "12.8")
    assert run("tell", tmp_path) == [old]
    new = make_wheel(tmp_path, "cu13", "13.0")
    assert run("tell", tmp_path) == [new]
    assert run("tell", tmp_path, nvrtc=old) == ["None"]


def real(version: str) -> pathlib.Path:
    site = next((ROOT / "build" / "nvrtc").glob(f"{version}.*"), None)
    if site is None:
        pytest.skip(f"no NVRTC {version} in build/nvrtc: tools/setup all fetches it")
    return site


def test_wheel_compiles_unless_one_is_named_or_loaded() -> None:
    site = real("12.8")
    wheel = str(site / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12")
    other = str(real("13.0") / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13")
    assert run("prepare", site) == [wheel, wheel]
    assert run("prepare", site, nvrtc=other) == ["None", other]
    assert run("prepare", site, other) == ["None", other]
