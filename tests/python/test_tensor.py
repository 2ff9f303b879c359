"""Tensors by protocol: DLPack, the CUDA array interface, raw pointers, streams."""

import ctypes

import numpy as np
import pytest

import problems
import reference
import smla
from smla import _driver, _prefill, _tensor


class DLPackOnly:
    """A numpy array that shows nothing but DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple:
        return self.array.__dlpack_device__()


class OnDevice:
    """A copy of an array in device memory, shown through __cuda_array_interface__."""

    def __init__(self, array: np.ndarray, typestr: str = "") -> None:
        driver = _driver.driver()
        self.array = np.ascontiguousarray(array)
        with driver.device(0):
            self.pointer = driver.allocate(self.array.nbytes)
            driver.copy_in(self.pointer, self.array.ctypes.data, self.array.nbytes)
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": typestr or array.dtype.str,
            "version": 3,
            "data": (self.pointer, False),
            "strides": None,
            "stream": 1,
        }

    def read(self) -> np.ndarray:
        with _driver.driver().device(0):
            _driver.driver().synchronize(0)
            _driver.driver().copy_out(self.array.ctypes.data, self.pointer, self.array.nbytes)
        return self.array

    def raw(self, dtype: str) -> smla.DeviceTensor:
        return smla.DeviceTensor(self.pointer, self.array.shape, dtype)


def problem_and_result():
    problem = problems.make(s_q=2, s_kv=64, topk=64, sinks=True, lengths=True)
    return problem, smla.prefill(**problem.inputs(), sm_scale=problem.sm_scale)


def test_dlpack(device: int) -> None:
    problem, expected = problem_and_result()
    out = np.zeros((2, 64, 512), np.uint16)
    inputs = {name: DLPackOnly(value) for name, value in problem.inputs().items()}
    smla.prefill(**inputs, sm_scale=problem.sm_scale, out=DLPackOnly(out), lse=None, max_logits=None)
    assert np.array_equal(out, expected[0])
    with pytest.raises(smla.InvalidArgumentError, match="give out="):
        smla.prefill(**inputs, sm_scale=problem.sm_scale)


def test_dlpack_describes_strides_and_offset() -> None:
    array = np.arange(24, dtype=np.int32).reshape(4, 6)[1:, ::2]
    tensor = _tensor.describe(DLPackOnly(array), "x")
    assert (tensor.shape, tensor.strides, tensor.dtype, tensor.device) == ((3, 3), (6, 2), "i32", None)
    assert ctypes.c_int32.from_address(tensor.pointer).value == 6


@pytest.mark.parametrize("typestr", ["<u2", "<V2"])
def test_cuda_array_interface(device: int, typestr: str) -> None:
    problem, expected = problem_and_result()
    types = {"query": typestr, "kv": typestr}
    inputs = {name: OnDevice(value, types.get(name, "")) for name, value in problem.inputs().items()}
    out, lse = OnDevice(np.zeros((2, 64, 512), np.uint16), typestr), OnDevice(np.zeros((2, 64), np.float32))
    smla.prefill(**inputs, sm_scale=problem.sm_scale, out=out, lse=lse, max_logits=None)
    assert np.array_equal(out.read(), expected[0]) and np.array_equal(lse.read(), expected[2])
    for name, value in problem.inputs().items():
        assert np.array_equal(inputs[name].read(), value)


def test_raw_pointers_on_a_stream_of_ones_own(device: int) -> None:
    problem, expected = problem_and_result()
    dtypes = {"query": "bf16", "kv": "bf16", "indices": "i32", "topk_length": "i32", "attn_sink": "f32"}
    held = {name: OnDevice(value) for name, value in problem.inputs().items()}
    out = OnDevice(np.zeros((2, 64, 512), np.uint16))
    stream = ctypes.c_void_p()
    with _driver.driver().device(0):
        _driver.driver()._call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))
    smla.prefill(
        **{name: value.raw(dtypes[name]) for name, value in held.items()},
        sm_scale=problem.sm_scale,
        out=out.raw("bf16"),
        lse=None,
        max_logits=None,
        stream=stream.value,
    )
    with _driver.driver().device(0):
        _driver.driver().synchronize(stream.value)
    assert np.array_equal(out.read(), expected[0])


def test_host_and_device_do_not_mix(device: int) -> None:
    problem, _ = problem_and_result()
    with pytest.raises(smla.InvalidArgumentError, match="on device 0 and query on the host"):
        smla.prefill(problem.query, OnDevice(problem.kv), problem.indices, 0.1)


def test_streams_are_numbers_or_objects() -> None:
    class Torchlike:
        cuda_stream = 5

    class Cupylike:
        ptr = 6

    class Protocol:
        def __cuda_stream__(self) -> tuple:
            return (0, 7)

    assert [_prefill.resolve_stream(s, None) for s in (0, 3, Torchlike(), Cupylike(), Protocol(), None)] == [
        0,
        3,
        5,
        6,
        7,
        None,
    ]


def test_host_arrays_leave_no_device_memory_behind(device: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = problem_and_result()
    taken, freed = [], []
    driver = _driver.driver()
    allocate, free = driver.allocate, driver.free
    monkeypatch.setattr(driver, "allocate", lambda size: taken.append(allocate(size)) or taken[-1])
    monkeypatch.setattr(driver, "free", lambda pointer: freed.append(pointer) or free(pointer))
    reference.check(
        smla.prefill(**problem.inputs(), sm_scale=problem.sm_scale),
        reference.prefill(
            problem.query, problem.kv, problem.indices, problem.sm_scale, problem.attn_sink, problem.topk_length
        ),
    )
    with pytest.raises(smla.InvalidArgumentError):
        smla.prefill(problem.query, problem.kv, np.zeros((2, 200), np.int32)[:, :100], -0.0 * float("inf"))
    assert taken and sorted(taken) == sorted(freed)
