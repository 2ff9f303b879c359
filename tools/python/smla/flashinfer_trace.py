"""The kernel of FlashInfer's trace `sparse_mla_prefill_h64_d512_k640` on smla."""

from typing import Any, Optional

from . import _tensor
from ._prefill import prefill
from .errors import InvalidArgumentError

HEADS, D, TOPK = 64, 512, 640


def run(Q: Any, KV: Any, indices: Any, topk_length: Optional[Any], attn_sink: Optional[Any], sm_scale: Any) -> Any:
    """O of sparse_mla_prefill_h64_d512_k640.

    Q: [M, 64, 512] bf16. KV: [Nkv, 512] or [Nkv, 1, 512] bf16. indices: [M, 640] or [M, 1, 640] int32. topk_length: [M]
    int32 or None. attn_sink: [64] float32 or None. sm_scale: a number, or a tensor of one (read, so waited for).
    Returns O [M, 64, 512] bf16, zero for queries without keys, on torch's current stream. The inputs are not changed;
    nothing is kept from one call to the next but the kernel."""
    query, lists = (_tensor.describe(value, name) for value, name in ((Q, "Q"), (indices, "indices")))
    if query.shape[1:] != (HEADS, D) or lists.shape[-1:] != (TOPK,):
        raise InvalidArgumentError(
            f"Q {list(query.shape)}, indices {list(lists.shape)}: this is the kernel of "
            f"[M, {HEADS}, {D}] and [M, {TOPK}]"
        )
    return prefill(
        Q, KV, indices, float(sm_scale), topk_length=topk_length, attn_sink=attn_sink, lse=None, max_logits=None
    )[0]
