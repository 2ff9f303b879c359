"""FlashMLA's prefill entry on smla: the same signature, conventions and strides."""

from typing import Any, Optional, Tuple

from ._prefill import prefill
from .errors import UnsupportedError


def flash_mla_sparse_fwd(
    q: Any,
    kv: Any,
    indices: Any,
    sm_scale: float,
    d_v: int = 512,
    attn_sink: Optional[Any] = None,
    topk_length: Optional[Any] = None,
    out: Optional[Any] = None,
) -> Tuple[Any, Any, Any]:
    """Sparse attention prefill.

    q: [s_q, h_q, d_qk] bf16, h_q 1 to 128, d_qk 512 or 576. kv: [s_kv, 1, d_qk] bf16; its first 512 columns are the
    values. indices: [s_q, 1, topk] or [s_q, topk] int32; a number below 0
    or from s_kv on is ignored. attn_sink: [h_q] float32; out is multiplied by exp(lse) / (exp(lse) + exp(attn_sink)),
    lse and max_logits are not touched by it. topk_length: [s_q] int32; entries from there on are ignored, whatever they
    say. out: None, or the tensor to write to, strided as it likes (vLLM's extension).

    Returns (out [s_q, h_q, d_v] bf16, max_logits [s_q, h_q] float32, lse [s_q, h_q] float32): natural logarithms; a
    query without a key has out 0, max_logits -inf and lse +inf. torch's current stream; nothing is waited for.
    UnsupportedError (a NotImplementedError) for a shape without a kernel."""
    if d_v != 512:
        raise UnsupportedError(f"d_v {d_v}: flash_mla_sparse_fwd is for d_v 512")
    return prefill(q, kv, indices, sm_scale, d_v=d_v, topk_length=topk_length, attn_sink=attn_sink, out=out)
