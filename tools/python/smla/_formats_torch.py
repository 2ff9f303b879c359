"""The arithmetic of kv_formats in torch, on the tensors' device and its current stream; nothing is waited for."""

from typing import Any, List, Tuple

from . import _formats_numpy as shared
from . import _tensor


class TorchOps:
    """NumpyOps in torch."""

    @staticmethod
    def as_bytes(cache: Any) -> Any:
        torch = _tensor.torch_module()
        if cache.element_size() != 1:
            shared._refuse(cache.dtype)
        return cache.view(torch.uint8)

    @staticmethod
    def flat_pages(cache: Any, page_bytes: int) -> Any:
        shared._check_page(tuple(cache.shape), tuple(cache.stride()))
        return cache.as_strided((cache.shape[0], page_bytes), (cache.stride(0), 1))

    @staticmethod
    def rows_of_pages(pages: Any, start: int, count: int, step: int, size: int) -> Any:
        return pages.as_strided(
            (pages.shape[0], count, size),
            (pages.stride(0), step * pages.stride(1), pages.stride(1)),
            pages.storage_offset() + start * pages.stride(1),
        )

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Any:
        return _tensor.torch_module().where(condition, a, b)

    @staticmethod
    def concat(parts: List[Any]) -> Any:
        return _tensor.torch_module().cat(parts, dim=-1)

    @staticmethod
    def zeros_bf16(like: Any, shape: Tuple[int, ...]) -> Any:
        torch = _tensor.torch_module()
        return torch.zeros(shape, dtype=torch.bfloat16, device=like.device)

    @staticmethod
    def zeros_u8(like: Any, shape: Tuple[int, ...]) -> Any:
        torch = _tensor.torch_module()
        return torch.zeros(shape, dtype=torch.uint8, device=like.device)

    @staticmethod
    def to_f32(rows: Any) -> Any:
        return rows.float()

    @staticmethod
    def to_bf16(values: Any) -> Any:
        return values.to(_tensor.torch_module().bfloat16)

    @staticmethod
    def bf16_of_bytes(data: Any) -> Any:
        return data.contiguous().view(_tensor.torch_module().bfloat16)

    @staticmethod
    def bytes_of_bf16(rows: Any) -> Any:
        torch = _tensor.torch_module()
        return rows.to(torch.bfloat16).contiguous().view(torch.uint8)

    @staticmethod
    def decode_values(data: Any, kind: str) -> Any:
        torch = _tensor.torch_module()
        if kind == "e4m3":
            return data.contiguous().view(torch.float8_e4m3fn).float()
        codes = torch.stack([data & 15, data >> 4], dim=-1).flatten(-2)
        size = (codes & 7).float()
        # 0, 0.5, 1, 1.5, 2, 3, 4, 6 by arithmetic: halves up to 4, then whole numbers, then 6.
        value = torch.where(size < 5, size / 2, torch.where(size < 7, size - 2, size - 1))
        return torch.where(codes >= 8, -value, value)

    @staticmethod
    def decode_scales(data: Any, kind: str) -> Any:
        torch = _tensor.torch_module()
        data = data.contiguous()
        if kind == "f32":
            return data.view(torch.float32)
        if kind == "e4m3":
            return data.view(torch.float8_e4m3fn).float()
        return _from_exponent(data.to(torch.int32))

    @staticmethod
    def encode_values(scaled: Any, kind: str) -> Any:
        torch = _tensor.torch_module()
        flat = scaled.flatten(-2)
        if kind == "e4m3":
            return _encode_e4m3(flat)
        size = flat.abs()
        code = torch.zeros(flat.shape, dtype=torch.uint8, device=flat.device)
        for bound, tie_goes_up in ((0.25, 0), (0.75, 1), (1.25, 0), (1.75, 1), (2.5, 0), (3.5, 1), (5.0, 0)):
            code += ((size >= bound) if tie_goes_up else (size > bound)).to(torch.uint8)
        code |= torch.signbit(flat).to(torch.uint8) << 3
        return code[..., 0::2] | (code[..., 1::2] << 4)

    @staticmethod
    def encode_scales(groups: Any, kind: str) -> Tuple[Any, Any]:
        torch = _tensor.torch_module()
        amax = groups.abs().amax(dim=-1)
        if kind == "e4m3":
            bits = _encode_e4m3((amax / 6).clamp(2.0**-9, shared.E4M3_MAX))
            return bits, bits.view(torch.float8_e4m3fn).float()
        raw = (amax / shared.E4M3_MAX).clamp_min(1e-4).view(torch.int32)
        exponent = ((raw >> 23) + ((raw & 0x7FFFFF) != 0).to(torch.int32)).clamp_max(255)
        exponent = torch.where(torch.isnan(amax), 255, exponent)
        scale = _from_exponent(exponent)
        return (scale.view(torch.uint8) if kind == "f32" else exponent.to(torch.uint8)), scale


def _from_exponent(exponent: Any) -> Any:
    """2^(e - 127) by its bits; e 0 is the subnormal 2^-127, 255 is NaN."""
    torch = _tensor.torch_module()
    bits = torch.where(exponent == 0, 1 << 22, torch.where(exponent == 255, 0x7FC00000, exponent << 23))
    return bits.to(torch.int32).view(torch.float32)


def _encode_e4m3(values: Any) -> Any:
    torch = _tensor.torch_module()
    # Saturating, as the format's writers are; torch alone would give NaN past 448 in some versions. NaN stays NaN.
    limited = values.clamp(-shared.E4M3_MAX, shared.E4M3_MAX)
    return limited.to(torch.float8_e4m3fn).view(torch.uint8)
