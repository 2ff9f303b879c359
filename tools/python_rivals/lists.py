"""Index lists and lengths, in numpy: the kinds of smla-bench prefill."""

import json
import pathlib
import struct
from typing import NamedTuple, Optional

import numpy

from .shapes import KINDS, Shape, ShapeError

WINDOW, DRIFT_SHARE = 128, 20  # positions; one entry in so many changes


class Lists(NamedTuple):
    indices: numpy.ndarray  # [s_q, topk] int32
    lengths: Optional[numpy.ndarray]  # [s_q] int32
    keys: int  # valid entries


def _drift(shape: Shape, random: numpy.random.Generator) -> numpy.ndarray:
    lists = numpy.empty((shape.s_q, shape.topk), numpy.int32)
    lists[0] = random.integers(shape.s_kv, size=shape.topk)
    changes = -(-shape.topk // DRIFT_SHARE)
    for token in range(1, shape.s_q):
        lists[token] = lists[token - 1]
        lists[token, random.integers(shape.topk, size=changes)] = random.integers(shape.s_kv, size=changes)
    return lists


def _window(shape: Shape, random: numpy.random.Generator) -> numpy.ndarray:
    """Queries are the last s_q positions of the cache, or spread over it when they are more."""
    tokens = numpy.arange(shape.s_q, dtype=numpy.int64)
    position = shape.s_kv - shape.s_q + tokens if shape.s_q <= shape.s_kv else tokens * shape.s_kv // shape.s_q
    recent = min(shape.topk, WINDOW)
    lists = random.integers(position[:, None] + 1, size=(shape.s_q, shape.topk))
    lists[:, :recent] = numpy.maximum(position[:, None] - numpy.arange(recent), -1)
    return lists.astype(numpy.int32)


def _tensor(data: bytes, shape: Shape, path: pathlib.Path) -> Optional[bytes]:
    """The bytes of 'indices' in a safetensors file; None when it is no such file."""
    try:
        size = struct.unpack("<Q", data[:8])[0]
        tensor = json.loads(data[8 : 8 + size])["indices"]
        rows, columns = tensor["shape"]
    except (struct.error, ValueError, KeyError, TypeError):
        return None
    if tensor["dtype"] != "I32" or rows < shape.s_q or columns != shape.topk:
        raise ShapeError(f"{path}: 'indices' is no I32 with {shape.s_q} rows and {shape.topk} columns")
    return data[8 + size + tensor["data_offsets"][0] :]


def _file(shape: Shape) -> numpy.ndarray:
    """Lists of a safetensors file, or plain int32."""
    path = pathlib.Path(shape.indices)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ShapeError(f"indices: none of {', '.join(KINDS)}, nor a file: {error}")
    data = _tensor(data, shape, path) or data
    count = shape.s_q * shape.topk
    if len(data) < 4 * count:
        raise ShapeError(f"{path} has {len(data)} bytes; lists of [{shape.s_q}, {shape.topk}] need {4 * count}")
    return numpy.frombuffer(data, "<i4", count).reshape(shape.s_q, shape.topk).copy()


def make(shape: Shape, random: numpy.random.Generator) -> Lists:
    """Lists for each query, lengths where the shape has them, and how many entries count."""
    if shape.indices == "uniform":
        indices = random.integers(shape.s_kv, size=(shape.s_q, shape.topk), dtype=numpy.int32)
    elif shape.indices == "drift":
        indices = _drift(shape, random)
    else:
        indices = _window(shape, random) if shape.indices == "window" else _file(shape)
    valid = (indices >= 0) & (indices < shape.s_kv)
    lengths = None
    if shape.lengths:
        low, high = shape.lengths
        lengths = random.integers(low, high + 1, size=shape.s_q, dtype=numpy.int32)
        valid &= numpy.arange(shape.topk) < lengths[:, None]
    return Lists(indices, lengths, int(valid.sum()))
