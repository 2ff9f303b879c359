"""The package installs by pip, offline, and works from where it was put."""

import os
import pathlib
import subprocess
import sys

import pytest

from conftest import ROOT


def test_pip_installs_it(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("setuptools", minversion="70")
    source = tmp_path / "source"
    subprocess.run(["cp", "-R", str(ROOT / "tools" / "python"), str(source)], check=True)
    target = tmp_path / "target"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
            "--target",
            str(target),
            str(source),
        ],
        check=True,
    )
    code = (
        "import smla, smla.deepinfer; print(smla.__file__, smla.native_version(), "
        "smla.query_support(64, 512, target='90').variant)"
    )
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    path, version, variant = done.stdout.split()
    assert path.startswith(str(target)) and version == smla_version() and "h64_d512" in variant


def smla_version() -> str:
    import smla

    return smla.__version__
