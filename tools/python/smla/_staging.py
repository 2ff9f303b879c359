"""Host arrays: copied to the device before the call and back after it. Slow and synchronous, for tests and tools."""

import itertools
from typing import Dict, List, Tuple

from ._driver import Driver
from ._tensor import ITEM_BYTES, Tensor, contiguous_strides
from .errors import InvalidArgumentError


class Staging:
    """Device copies of host tensors, layout included: a strided view becomes a strided view. Use within
    Driver.device(); `close` frees them."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._pointers: List[int] = []
        self._outputs: Dict[str, Tuple[Tensor, int]] = {}

    def input(self, tensor: Tensor, name: str) -> int:
        """Copies the bytes from the first to the last element and returns the device address of the first."""
        size = _span_bytes(tensor, name)
        pointer = self.scratch(size)
        self._driver.copy_in(pointer, tensor.pointer, size)
        return pointer

    def output(self, tensor: Tensor, name: str) -> int:
        """Room for an output of the tensor's layout, copied back by `copy_back`."""
        pointer = self.scratch(_span_bytes(tensor, name))
        self._outputs[name] = (tensor, pointer)
        return pointer

    def scratch(self, size_bytes: int) -> int:
        pointer = self._driver.allocate(size_bytes)
        self._pointers.append(pointer)
        return pointer

    def copy_back(self, stream: int) -> None:
        """Waits for the stream, then writes the outputs' elements, and nothing between them."""
        self._driver.synchronize(stream)
        for tensor, pointer in self._outputs.values():
            for host_offset, size in _runs(tensor):
                self._driver.copy_out(tensor.pointer + host_offset, pointer + host_offset, size)

    def close(self) -> None:
        while self._pointers:
            self._driver.free(self._pointers.pop())


def _span_bytes(tensor: Tensor, name: str) -> int:
    if any(stride < 0 for size, stride in zip(tensor.shape, tensor.strides) if size > 1):
        raise InvalidArgumentError(f"{name} has a negative stride: flip it into a copy first")
    return tensor.span_elems * ITEM_BYTES[tensor.dtype]


def _runs(tensor: Tensor) -> List[Tuple[int, int]]:
    """(byte offset, bytes) of the contiguous runs: all at once where there is no gap, else one for each row, or
    for each element where those of a row are apart."""
    item = ITEM_BYTES[tensor.dtype]
    if tensor.numel == 0:
        return []
    if tensor.strides == contiguous_strides(tensor.shape):
        return [(0, tensor.numel * item)]
    apart = tensor.shape[-1] > 1 and tensor.strides[-1] != 1
    rows = itertools.product(*(range(size) for size in (tensor.shape if apart else tensor.shape[:-1])))
    width = item if apart else tensor.shape[-1] * item
    return [(item * sum(i * stride for i, stride in zip(row, tensor.strides)), width) for row in rows]
