"""Outputs: given by the caller, or allocated like the inputs."""

import contextlib
from typing import Any, Iterator, Optional, Sequence, Union

from . import _tensor
from ._tensor import Tensor
from .errors import InvalidArgumentError

Wanted = Union[bool, None, Any]
_STREAM_LEGACY = 1  # CU_STREAM_LEGACY, another name of the NULL stream


@contextlib.contextmanager
def _allocating_on(torch: Any, like: Tensor, stream: Optional[int]) -> Iterator[None]:
    """Lets torch's allocator know which stream the new memory is for, where it is not the current one: else it could
    hand out memory that work on the current stream still uses."""
    if stream is None or like.device is None or stream == torch.cuda.current_stream(like.device).cuda_stream:
        yield
        return
    handle = 0 if stream == _STREAM_LEGACY else stream
    with torch.cuda.stream(torch.cuda.ExternalStream(handle, device=like.owner.device)):
        yield


def allocate(like: Tensor, shape: Sequence[int], dtype: str, name: str, stream: Optional[int]) -> Any:
    """A new contiguous array beside `like`: torch's on its device, numpy's of the same kind of bf16.

    stream: the CUstream that writes it; None means torch's current one. dtype: "bf16" or "f32".
    InvalidArgumentError for inputs of other libraries: those give their outputs."""
    if like.kind == "torch":
        torch = _tensor.torch_module()
        with _allocating_on(torch, like, stream):
            return torch.empty(
                tuple(shape), dtype=torch.bfloat16 if dtype == "bf16" else torch.float32, device=like.owner.device
            )
    if like.kind == "numpy":
        return _tensor.numpy_module().empty(tuple(shape), like.owner.dtype if dtype == "bf16" else "float32")
    raise InvalidArgumentError(
        f"{name}: outputs are allocated for tensors of torch and numpy; give {name}= to write to, {list(shape)} {dtype}"
    )


def resolve(wanted: Wanted, like: Tensor, shape: Sequence[int], dtype: str, name: str, stream: Optional[int]) -> Any:
    """The array that an output goes to: a new one for True, None for False and None, else the caller's own."""
    if wanted is None or wanted is False:
        return None
    return allocate(like, shape, dtype, name, stream) if wanted is True else wanted
