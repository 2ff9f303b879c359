"""Paths for the tests: the package from the tree, the library and the emulated device from SMLA_TEST_BUILD."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

BUILD = pathlib.Path(os.environ.get("SMLA_TEST_BUILD", ROOT / "build"))
ON_CARD = os.environ.get("SMLA_TEST_DEVICE") == "cuda"
os.environ.setdefault("SMLA_LIBRARY", str(BUILD / "lib" / "libsmla.so"))
if not ON_CARD:
    os.environ["SMLA_DRIVER"] = str(BUILD / "emu" / "libcuda.so.1")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "h200: needs a card and torch")


@pytest.fixture(scope="session")
def device() -> int:
    """A device that runs the kernel of 64 heads and d 512. Skipped, by name, where there is no compiler for it."""
    import smla

    try:
        smla.prepare(64, 512)
    except (smla.UnavailableError, smla.NotCachedError) as error:
        pytest.skip(f"no kernel here: {error.message}")
    return 0
