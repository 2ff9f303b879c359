"""Errors come as exceptions with the library's own sentence, or the package's where it sees more."""

import os
import subprocess
import sys

import numpy as np
import pytest

import problems
import smla
from conftest import ROOT
from smla import _library, errors
from smla.flash_mla import flash_mla_sparse_fwd
from smla.flashinfer_trace import run


def small() -> problems.Problem:
    return problems.make(s_q=2, s_kv=64, topk=64, sinks=True, lengths=True)


def prefill_with(**changes: object):
    inputs = {**small().inputs(), "sm_scale": 0.1, **changes}
    return smla.prefill(**inputs)


def test_each_status_has_a_class() -> None:
    assert sorted(errors.CLASSES) == [*range(1, 10), 11, 12]  # 10 is SMLA_PENDING, which only smla_prepare_poll says
    assert issubclass(smla.UnsupportedError, NotImplementedError) and issubclass(smla.InvalidArgumentError, ValueError)


def test_an_unsupported_shape_says_why(device: int) -> None:
    q = np.zeros((2, 64, 640), np.uint16)
    with pytest.raises(smla.UnsupportedError) as caught:
        flash_mla_sparse_fwd(q, np.zeros((64, 1, 640), np.uint16), small().indices, 0.1)
    assert "d_qk 640" in caught.value.message
    support = smla.query_support(64, 640)
    assert not support.supported and support.reason == caught.value.message
    with pytest.raises(smla.UnsupportedError, match="d_v 256"):
        flash_mla_sparse_fwd(small().query, small().kv, small().indices, 0.1, d_v=256)
    with pytest.raises(smla.UnsupportedError, match="one key/value head"):
        flash_mla_sparse_fwd(small().query, np.zeros((64, 2, 512), np.uint16), small().indices, 0.1)


@pytest.mark.parametrize(
    "changes, words",
    [
        (dict(query=np.zeros((2, 64, 512), np.float32)), "query is .*f32: .*bf16 is needed"),
        (dict(query=np.zeros((2, 64), np.uint16)), "query is"),
        (dict(kv=np.zeros((64, 576), np.uint16)), r"kv is \[64, 576\]"),
        (dict(indices=np.zeros((3, 64), np.int32)), r"indices is \[3, 64\]"),
        (dict(indices=np.zeros((2, 64), np.int64)), "indices is .*i64.*i32 is needed"),
        (dict(indices=np.zeros((2, 128), np.int32)[:, ::2]), "last dimension has stride 2"),
        (dict(topk_length=np.zeros(3, np.int32)), "topk_length is"),
        (dict(topk_length=np.zeros(2, np.int64)), "topk_length is .*i64"),
        (dict(topk_length=np.zeros((2, 1), np.int32)), "topk_length is"),
        (dict(attn_sink=np.zeros(64, np.float64)), "attn_sink is .*f64"),
        (dict(attn_sink=np.zeros(128, np.float32)), "attn_sink is"),
        (dict(sm_scale=float("nan")), "sm_scale is nan"),
        (dict(out=np.zeros((2, 64, 256), np.uint16)), "out is"),
        (dict(out=np.zeros((2, 64, 512), np.float32)), "out is .*f32"),
        (dict(lse=np.zeros((64, 2), np.float32)), "lse is"),
        (dict(query=[1, 2]), "query is a list"),
        (dict(stream="0"), "stream is a str"),
    ],
)
def test_a_wrong_call_is_named(device: int, changes: dict, words: str) -> None:
    with pytest.raises(smla.InvalidArgumentError, match=words):
        prefill_with(**changes)


def test_a_read_only_output_is_refused(device: int) -> None:
    out = np.zeros((2, 64, 512), np.uint16)
    out.flags.writeable = False
    with pytest.raises(smla.InvalidArgumentError, match="read-only"):
        prefill_with(out=out)


def test_the_librarys_own_sentence_and_untouched_outputs(device: int) -> None:
    wide = np.zeros((64, 515), np.uint16)
    out = np.full((2, 64, 512), 9, np.uint16)
    with pytest.raises(
        smla.InvalidArgumentError, match="kv_stride_token 515: this kernel needs a multiple of 8"
    ) as caught:
        prefill_with(kv=wide[:, :512], out=out)
    assert caught.value.status == 1 and caught.value.native_code == 0 and (out == 9).all()


def test_a_checked_call_names_the_first_bad_index(device: int) -> None:
    problem = small()
    lists, lengths = np.full((2, 64), -1, np.int32), np.array([64, 9], np.int32)
    lists[:, :9] = np.arange(9)
    inputs = {**problem.inputs(), "indices": lists, "topk_length": lengths, "sm_scale": 0.1}
    plain, checked = smla.prefill(**inputs), smla.prefill(**inputs, checked=True)
    assert all(np.array_equal(a, b) for a, b in zip(plain, checked))
    lists[1, 40] = 70000  # past the length
    smla.prefill(**inputs, checked=True)
    lists[1, 7], lists[1, 8] = 64, -5
    out = np.full((2, 64, 512), 9, np.uint16)
    with pytest.raises(
        smla.InvalidArgumentError, match=r"indices\[row 1\]\[slot 7\] is 64: neither -1 nor below s_kv 64"
    ):
        smla.prefill(**inputs, out=out, checked=True)
    assert (out == 9).all()
    smla.prefill(**inputs)
    lengths[0] = 65
    with pytest.raises(smla.InvalidArgumentError, match=r"topk_length\[0\] is 65: lengths are 0 to topk 64"):
        smla.prefill(**inputs, checked=True)


def test_trace_shapes(device: int) -> None:
    with pytest.raises(smla.InvalidArgumentError, match="640"):
        run(small().query, small().kv, small().indices, None, None, 0.1)


def _elsewhere(code: str, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools" / "python"), **variables}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_missing_library_is_named() -> None:
    said = _elsewhere(
        "import smla\ntry: smla.prepare(64, 512)\nexcept smla.UnavailableError as e: print(e)",
        SMLA_LIBRARY="/nonexistent/libsmla.so",
    )
    assert "/nonexistent/libsmla.so" in said and "SMLA_LIBRARY" in said


def test_a_missing_driver_is_named() -> None:
    said = _elsewhere(
        "import smla\ntry: smla.prepare(64, 512)\nexcept smla.UnavailableError as e: print(e)",
        SMLA_DRIVER="/nonexistent/libcuda.so.1",
    )
    assert "/nonexistent/libcuda.so.1" in said


def test_importing_needs_neither_torch_nor_numpy() -> None:
    said = _elsewhere(
        "import sys, smla, smla.deepinfer, smla.flash_mla, smla.flashinfer_trace, smla.kv_formats\n"
        "print([name for name in ('torch', 'numpy', 'ml_dtypes') if name in sys.modules])"
    )
    assert said.strip() == "[]"


def test_support_needs_no_device_with_a_target() -> None:
    support = smla.query_support(64, 512, target="90")
    assert support.supported and support.launches == 2 and support.target == "90a"
    assert _library.library().smla_abi_version() == 1 and smla.native_version() == smla.__version__
