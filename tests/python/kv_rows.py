#!/usr/bin/env python3
"""Writes tests/data/formats/kv-rows.safetensors: rows of bf16, and what kv_formats makes of them in each format.

test_kv_formats.py holds the file against kv_formats, tests/tools/kv_codec_test.c against tools/common/kv_codec.c and
runtime/kv_read.c: so the two write and read the same bytes. Tensors: rows [6, 576] (bits of bf16; a format of d 512
takes 512 columns), slots [6]; of each format its cache, two pages of 4 tokens without a gap, 0x7f where nothing is
written, and <format>.read [6, d_qk], the rows read back.

usage: kv_rows.py    (needs numpy and safetensors)
"""

import pathlib
import sys
from typing import Dict

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "python"))
PATH = ROOT / "tests" / "data" / "formats" / "kv-rows.safetensors"
WIDTH, PAGE_SIZE, PAGES = 576, 4, 2
SLOTS = np.array([5, 0, 3, 7, 2, 6], np.int32)


def rows() -> np.ndarray:
    """[6, 576] float32: of normal size; tiny, subnormal and 0; huge; ties of e4m3; ties of e2m1; NaN and infinities."""
    from smla._formats_numpy import E2M1_VALUES, e4m3_table

    random = np.random.default_rng(0)
    sign = random.choice([-1.0, 1.0], (6, WIDTH))
    size = np.abs(random.standard_normal((6, WIDTH)))
    size[0] *= np.exp(random.uniform(-4, 4, WIDTH // 16)).repeat(16)
    size[1] *= np.exp2(random.integers(-134, -6, WIDTH // 16)).repeat(16)
    size[1, 32:64] = 0
    size[2] *= np.exp2(random.integers(80, 125, WIDTH // 16)).repeat(16)
    size[2, ::64] = 448 * np.exp2(random.integers(-3, 100, WIDTH // 64))
    codes = np.array(e4m3_table()[:127])
    size[3] = random.choice((codes[1:] + codes[:-1]) / 2, WIDTH)
    size[3, ::32] = 448
    middles = (np.array(E2M1_VALUES[1:]) + np.array(E2M1_VALUES[:-1])) / 2
    size[4] = random.choice(middles, WIDTH)
    size[4, ::16] = 6
    size[4] *= np.exp2(random.integers(-6, 6, WIDTH // 16)).repeat(16)
    values = (sign * size).astype(np.float32)
    values[5, [3, 100]] = np.nan
    values[5, [40, 101, 300]] = np.inf
    values[5, [200, 460]] = -np.inf
    values[5, [220, 570]] = -np.nan
    return values


def written(bits: np.ndarray) -> Dict[str, np.ndarray]:
    """Of each format its cache and the rows read back."""
    from smla import kv_formats

    made = {}
    for name, row in kv_formats.FORMATS.items():
        cache = kv_formats.empty_cache(bits, PAGES, PAGE_SIZE, name)
        cache[:] = 0x7F
        with np.errstate(invalid="ignore"):
            kv_formats.write(cache, SLOTS, bits[:, : row.d_qk], name, PAGE_SIZE)
        made[name] = cache
        made[f"{name}.read"] = kv_formats.gather(cache, SLOTS, name, PAGE_SIZE)
    return made


def main() -> int:
    from safetensors.numpy import save_file

    from smla._formats_numpy import NumpyOps

    bits = NumpyOps.to_bf16(rows())
    bits[5, 221] = 0xFF81  # a NaN with a sign and a payload
    save_file({"rows": bits, "slots": SLOTS, **written(bits)}, str(PATH), {"page_tokens": str(PAGE_SIZE)})
    print(f"{PATH}: {PATH.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
