"""One description of a tensor, whoever made it: torch, numpy, the CUDA array interface, DLPack, a raw pointer.

Nothing is imported here: torch and numpy are looked at only when the caller has imported them.
"""

import ctypes
import dataclasses
import sys
from typing import Any, Optional, Sequence, Tuple

from .errors import InvalidArgumentError

ITEM_BYTES = {
    "bf16": 2,
    "f16": 2,
    "u16": 2,
    "i16": 2,
    "f32": 4,
    "i32": 4,
    "u32": 4,
    "f64": 8,
    "i64": 8,
    "u64": 8,
    "i8": 1,
    "u8": 1,
    "bool": 1,
    "f8_e4m3": 1,
}


@dataclasses.dataclass(frozen=True)
class DeviceTensor:
    """A tensor by its device pointer, for callers without a tensor library.

    pointer: device address; the memory belongs to the caller and must live until the work has run.
    dtype: "bf16", "f32" or "i32". strides: in elements; None means contiguous. device: the CUDA ordinal.
    """

    pointer: int
    shape: Tuple[int, ...]
    dtype: str
    strides: Optional[Tuple[int, ...]] = None
    device: int = 0


@dataclasses.dataclass(frozen=True)
class Tensor:
    """What the package knows of a tensor. strides are in elements; device is None for host memory; owner keeps the
    memory alive for the length of the call; stream is the producer's where the protocol tells it."""

    pointer: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    dtype: str
    device: Optional[int]
    kind: str
    owner: Any
    stream: Optional[int] = None

    @property
    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def span_elems(self) -> int:
        """Elements from the first to behind the last one; 0 when there is none."""
        if self.numel == 0:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))


def contiguous_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def torch_module() -> Any:
    """torch where somebody imported it, else None."""
    return sys.modules.get("torch")


def numpy_module() -> Any:
    """numpy where somebody imported it, else None."""
    return sys.modules.get("numpy")


def is_torch(value: object) -> bool:
    torch = torch_module()
    return torch is not None and hasattr(torch, "Tensor") and isinstance(value, torch.Tensor)


def is_numpy(value: object) -> bool:
    numpy = numpy_module()
    return numpy is not None and hasattr(numpy, "ndarray") and isinstance(value, numpy.ndarray)


_TORCH_DTYPES = {
    "torch.bfloat16": "bf16",
    "torch.float16": "f16",
    "torch.float32": "f32",
    "torch.float64": "f64",
    "torch.int8": "i8",
    "torch.uint8": "u8",
    "torch.int16": "i16",
    "torch.uint16": "u16",
    "torch.int32": "i32",
    "torch.uint32": "u32",
    "torch.int64": "i64",
    "torch.uint64": "u64",
    "torch.bool": "bool",
    "torch.float8_e4m3fn": "f8_e4m3",
}

_NUMPY_DTYPES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "uint16": "u16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "bool": "bool",
    "float8_e4m3fn": "f8_e4m3",
}


def _describe_torch(value: Any, name: str) -> Tensor:
    if value.device.type not in ("cuda", "cpu"):
        raise InvalidArgumentError(f"{name} is on {value.device}: tensors of torch are taken from cuda and cpu")
    device = None if value.device.type == "cpu" else value.device.index
    return Tensor(
        value.data_ptr(),
        tuple(value.shape),
        tuple(value.stride()),
        _TORCH_DTYPES.get(str(value.dtype), str(value.dtype)),
        device,
        "torch",
        value,
    )


def _describe_numpy(value: Any, name: str) -> Tensor:
    item = value.dtype.itemsize
    if any(stride % item for stride in value.strides) or not value.dtype.isnative:
        raise InvalidArgumentError(f"{name}: its strides must be whole elements, in this machine's byte order")
    strides = tuple(stride // item for stride in value.strides)
    return Tensor(
        value.ctypes.data,
        value.shape,
        strides,
        _NUMPY_DTYPES.get(value.dtype.name, value.dtype.name),
        None,
        "numpy",
        value,
    )


_INTERFACE_DTYPES = {
    "f2": "f16",
    "f4": "f32",
    "f8": "f64",
    "i1": "i8",
    "i2": "i16",
    "i4": "i32",
    "i8": "i64",
    "u1": "u8",
    "u2": "u16",
    "u4": "u32",
    "u8": "u64",
    "V2": "bf16",
    "b1": "bool",
}


def _device_of_pointer(pointer: int) -> int:
    from ._driver import driver  # late: only this protocol leaves the device unsaid

    return driver().device_of(pointer) if pointer else 0


def _describe_interface(value: Any, name: str) -> Tensor:
    interface = value.__cuda_array_interface__
    typestr = interface["typestr"]
    dtype = _INTERFACE_DTYPES.get(typestr[1:])
    if dtype is None or typestr[0] == ">":
        raise InvalidArgumentError(f"{name}: its type '{typestr}' is none that smla takes")
    shape = tuple(interface["shape"])
    strides = contiguous_strides(shape)
    if interface.get("strides") is not None:
        item = ITEM_BYTES[dtype]
        if any(stride % item for stride in interface["strides"]):
            raise InvalidArgumentError(f"{name}: its strides must be whole elements")
        strides = tuple(stride // item for stride in interface["strides"])
    pointer = interface["data"][0] or 0
    return Tensor(
        pointer, shape, strides, dtype, _device_of_pointer(pointer), "interface", value, interface.get("stream")
    )


class _DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    """The start of DLManagedTensor, DLPack 0.x and the unversioned capsules of 1.x."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DL_CPU, _DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED = 1, 2, 3, 13
_DL_DTYPES = {
    (0, 8): "i8",
    (0, 16): "i16",
    (0, 32): "i32",
    (0, 64): "i64",
    (1, 8): "u8",
    (1, 16): "u16",
    (1, 32): "u32",
    (1, 64): "u64",
    (2, 16): "f16",
    (2, 32): "f32",
    (2, 64): "f64",
    (4, 16): "bf16",
}


def _describe_dlpack(value: Any, name: str, stream: Optional[int]) -> Tensor:
    device_type, device_id = value.__dlpack_device__()
    if device_type not in (_DL_CPU, _DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED):
        raise InvalidArgumentError(f"{name} is on DLPack device type {int(device_type)}: CPU and CUDA are taken")
    on_device = device_type in (_DL_CUDA, _DL_CUDA_MANAGED)
    # 1 is the legacy default stream in DLPack. The capsule keeps its name: when it goes, it frees what it holds.
    capsule = value.__dlpack__(stream=stream or 1) if on_device else value.__dlpack__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(get_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else contiguous_strides(shape)
    dtype = _DL_DTYPES.get((tensor.dtype.code, tensor.dtype.bits)) if tensor.dtype.lanes == 1 else None
    if dtype is None:
        raise InvalidArgumentError(
            f"{name}: DLPack type code {tensor.dtype.code}, {tensor.dtype.bits} bits is none that smla takes"
        )
    return Tensor(
        (tensor.data or 0) + tensor.byte_offset,
        shape,
        strides,
        dtype,
        int(device_id) if on_device else None,
        "dlpack",
        (value, capsule),
    )


def describe(value: Any, name: str, stream: Optional[int] = None) -> Tensor:
    """Describes a tensor. name: for messages. stream: the CUstream it will be used on, told to DLPack's producer.

    InvalidArgumentError when it is none of the kinds that smla takes."""
    if is_torch(value):
        return _describe_torch(value, name)
    if is_numpy(value):
        return _describe_numpy(value, name)
    if isinstance(value, DeviceTensor):
        strides = tuple(value.strides) if value.strides is not None else contiguous_strides(value.shape)
        return Tensor(value.pointer, tuple(value.shape), strides, value.dtype, value.device, "raw", value)
    if hasattr(value, "__cuda_array_interface__"):
        return _describe_interface(value, name)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _describe_dlpack(value, name, stream)
    raise InvalidArgumentError(
        f"{name} is a {type(value).__name__}: give a tensor of torch or numpy, one with "
        "__cuda_array_interface__ or __dlpack__, or a smla.DeviceTensor"
    )
