"""The arithmetic of kv_formats in numpy. bf16 is its bits as uint16, or ml_dtypes.bfloat16 on the way in."""

import functools
from typing import Any, List, Tuple

from . import _tensor

E4M3_MAX, E2M1_VALUES = 448.0, (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def e4m3_table() -> List[float]:
    """The value of each byte; 0x7f and 0xff are NaN."""
    table = []
    for code in range(256):
        exponent, mantissa = (code >> 3) & 15, code & 7
        size = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
        size = float("nan") if code & 0x7F == 0x7F else size
        table.append(-size if code & 0x80 else size)
    return table


def ue8m0_table() -> List[float]:
    """2^(e - 127); 255 is NaN."""
    return [2.0 ** (code - 127) for code in range(255)] + [float("nan")]


def e2m1_table() -> List[float]:
    """Of a nibble; bit 3 is the sign."""
    return list(E2M1_VALUES) + [-value for value in E2M1_VALUES]


@functools.lru_cache(None)
def _table(name: str) -> Any:
    np = _tensor.numpy_module()
    table = {"e4m3": e4m3_table, "ue8m0": ue8m0_table, "e2m1": e2m1_table}[name]()
    return np.array(table, np.float64).astype(np.float32)


class NumpyOps:
    """See kv_formats; TorchOps is the same in torch."""

    @staticmethod
    def as_bytes(cache: Any) -> Any:
        return cache.view("uint8") if cache.dtype.itemsize == 1 else _refuse(cache.dtype)

    @staticmethod
    def flat_pages(cache: Any, page_bytes: int) -> Any:
        np = _tensor.numpy_module()
        _check_page(cache.shape, cache.strides)
        return np.lib.stride_tricks.as_strided(cache, (cache.shape[0], page_bytes), (cache.strides[0], 1))

    @staticmethod
    def rows_of_pages(pages: Any, start: int, count: int, step: int, size: int) -> Any:
        np = _tensor.numpy_module()
        return np.lib.stride_tricks.as_strided(
            pages[:, start:],
            (pages.shape[0], count, size),
            (pages.strides[0], step * pages.strides[1], pages.strides[1]),
        )

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Any:
        return _tensor.numpy_module().where(condition, a, b)

    @staticmethod
    def concat(parts: List[Any]) -> Any:
        return _tensor.numpy_module().concatenate(parts, axis=-1)

    @staticmethod
    def zeros_bf16(like: Any, shape: Tuple[int, ...]) -> Any:
        return _tensor.numpy_module().zeros(shape, "uint16")

    @staticmethod
    def zeros_u8(like: Any, shape: Tuple[int, ...]) -> Any:
        return _tensor.numpy_module().zeros(shape, "uint8")

    @staticmethod
    def to_f32(rows: Any) -> Any:
        np = _tensor.numpy_module()
        if rows.dtype == np.uint16:
            return (rows.astype(np.uint32) << 16).view(np.float32)
        return rows.astype(np.float32)

    @staticmethod
    def to_bf16(values: Any) -> Any:
        np = _tensor.numpy_module()
        bits = values.astype(np.float32).view(np.uint32)
        rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)

    @staticmethod
    def bf16_of_bytes(data: Any) -> Any:
        np = _tensor.numpy_module()
        return np.ascontiguousarray(data).view(np.uint16)

    @staticmethod
    def bytes_of_bf16(rows: Any) -> Any:
        np = _tensor.numpy_module()
        bits = rows if rows.dtype.itemsize == 2 else NumpyOps.to_bf16(rows)
        return np.ascontiguousarray(bits).view(np.uint8)

    @staticmethod
    def decode_values(data: Any, kind: str) -> Any:
        if kind == "e4m3":
            return _table("e4m3")[data]
        np = _tensor.numpy_module()
        pairs = np.stack([_table("e2m1")[data & 15], _table("e2m1")[data >> 4]], axis=-1)
        return pairs.reshape(data.shape[:-1] + (-1,))

    @staticmethod
    def decode_scales(data: Any, kind: str) -> Any:
        np = _tensor.numpy_module()
        return np.ascontiguousarray(data).view(np.float32) if kind == "f32" else _table(kind)[data]

    @staticmethod
    def encode_values(scaled: Any, kind: str) -> Any:
        np = _tensor.numpy_module()
        flat = scaled.reshape(scaled.shape[:-2] + (-1,))
        if kind == "e4m3":
            return _encode_e4m3(flat)
        size = np.abs(flat)
        code = np.zeros(flat.shape, np.uint8)
        for bound, tie_goes_up in ((0.25, 0), (0.75, 1), (1.25, 0), (1.75, 1), (2.5, 0), (3.5, 1), (5.0, 0)):
            code += (size >= bound) if tie_goes_up else (size > bound)
        code |= np.signbit(flat).astype(np.uint8) << 3
        return code[..., 0::2] | (code[..., 1::2] << 4)

    @staticmethod
    def encode_scales(groups: Any, kind: str) -> Tuple[Any, Any]:
        """(the scales' bytes, the scales as float32) of [..., groups, group]."""
        np = _tensor.numpy_module()
        amax = np.abs(groups).max(axis=-1)
        if kind == "e4m3":
            bits = _encode_e4m3(np.clip(amax / np.float32(6), np.float32(2.0**-9), np.float32(E4M3_MAX)))
            return bits, _table("e4m3")[bits]
        # Up to a power of two: the exponent, and one more where there is a mantissa.
        raw = np.maximum(amax / np.float32(E4M3_MAX), np.float32(1e-4)).view(np.uint32)
        exponent = np.minimum((raw >> 23) + ((raw & 0x7FFFFF) != 0), 255).astype(np.uint8)
        exponent = np.where(np.isnan(amax), np.uint8(255), exponent)
        scale = _table("ue8m0")[exponent]
        return (np.ascontiguousarray(scale).view(np.uint8) if kind == "f32" else exponent), scale


def _encode_e4m3(values: Any) -> Any:
    """To nearest even, saturating; NaN is 0x7f."""
    np = _tensor.numpy_module()
    size = np.minimum(np.abs(values), np.float32(E4M3_MAX))
    _, exponent = np.frexp(np.maximum(size, np.float32(2.0**-6)))  # size = m * 2^exponent, m in [0.5, 1)
    steps = np.rint(np.ldexp(size, 4 - exponent))  # of the spacing 2^(exponent - 4); 8 to 16 in the normal range
    code = np.where(np.isnan(values), 0, (exponent + 5) * 8 + steps)
    code = np.where(np.isnan(values), 0x7F, code).astype(np.uint8)
    return code | (np.signbit(values).astype(np.uint8) << 7)


def _check_page(shape: Tuple[int, ...], strides: Tuple[int, ...]) -> None:
    inner = _tensor.contiguous_strides(shape[1:])
    if any(size > 1 and got != wanted for size, got, wanted in zip(shape[1:], strides[1:], inner)):
        raise _invalid(f"a page of {list(shape[1:])} bytes has strides {list(strides[1:])}: it must be one run")


def _invalid(message: str) -> Exception:
    from .errors import InvalidArgumentError

    return InvalidArgumentError(message)


def _refuse(dtype: Any) -> Any:
    raise _invalid(f"the cache's dtype is {dtype}: bytes are needed, uint8 or an 8-bit float")
