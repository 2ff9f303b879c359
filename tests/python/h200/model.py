#!/usr/bin/env python3
"""A small sparse-attention model end to end on smla.deepinfer, beside the same model with attention in float64.

Two sequences are prefilled, then decoded greedily from quantised caches (one layer with two caches). Checked: smla
serves every call and nothing falls back; the tokens are the control's, or the first difference is at a step where the
control's margin is below what the accepted error of attention (2 bf16 ULP of a row's largest value) does to the logits;
a second run gives the same bits.

usage: model.py [--device cuda|cpu] [--layers N] [--prompt N] [--steps N] [--hidden N]
"""

import argparse
import dataclasses
import os
import sys
import time
from typing import Callable, List, Optional, Tuple

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ["DEEPINFER_SIMULATE_NO_TILELANG"] = "1"
os.environ.pop("DEEPINFER_SPARSE_MLA_BACKEND", None)

import torch  # noqa: E402

import attention64  # noqa: E402
from smla import deepinfer, kv_formats  # noqa: E402

HEADS, D, TOPK, WINDOW, PAGE, VOCABULARY, INDEX_D = 64, 512, 128, 32, 64, 2000, 64
SCALE = D**-0.5
FORMATS = ("v4", "v41_planar", "v32_norope", "v41")  # of layer i: i mod 4; the second has two caches, the extra one fp4
EXTRA = {1: "v41_fp4_planar"}


@dataclasses.dataclass
class Layer:
    query: torch.Tensor
    latent: torch.Tensor
    output: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor
    index_query: torch.Tensor
    index_key: torch.Tensor
    sink: torch.Tensor


class Attention:
    """Both call sites, on smla or in float64; noise_ulp adds that many ULP of the row's largest value, at random."""

    def __init__(self, exact: bool, noise_ulp: float = 0.0, seed: int = 0, device: str = "cpu") -> None:
        self.exact, self.noise_ulp = exact, noise_ulp
        self.random = torch.Generator(device).manual_seed(seed)

    def _round(self, out: torch.Tensor) -> torch.Tensor:
        if self.noise_ulp:
            row = out.abs().amax(dim=-1, keepdim=True).clamp_min(2.0**-126)
            noise = torch.rand(out.shape, generator=self.random, device=out.device, dtype=out.dtype) * 2 - 1
            out = out + noise * self.noise_ulp * torch.exp2(torch.floor(torch.log2(row)) - 7)
        return out.to(torch.bfloat16)

    def prefill(self, query: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor, sink: torch.Tensor) -> torch.Tensor:
        if self.exact:
            return self._round(attention64.prefill(query, kv, indices, SCALE, sink).out)
        return deepinfer.prefill_attn_varlen_sparse(query, kv[:, None], indices, SCALE, attn_sink=sink)[0]

    def decode(
        self, query: torch.Tensor, scopes: List[Tuple[torch.Tensor, torch.Tensor, str]], sink: torch.Tensor
    ) -> torch.Tensor:
        """query [b, h, d]; scopes: (cache, slots [b, k], format)."""
        if self.exact:
            rows = torch.cat([kv_formats.gather(cache, slots, name, PAGE) for cache, slots, name in scopes], dim=1)
            valid = torch.cat([slots >= 0 for _, slots, _ in scopes], dim=1)
            return self._round(attention64.attend(query, rows, valid, SCALE, sink).out)
        options = {}
        if len(scopes) == 2:
            options = dict(
                extra_kv_cache=scopes[1][0],
                extra_indices=scopes[1][1][:, None],
                extra_kv_format=scopes[1][2],
                extra_page_size=PAGE,
            )
        cache, slots, name = scopes[0]
        return deepinfer.decode_attn_sparse(
            query[:, None], cache, slots[:, None], SCALE, kv_format=name, page_size=PAGE, attn_sink=sink, **options
        )[0][:, 0]


class Model:
    """Weights by a seed. hidden states are float32, the projections into attention bf16."""

    def __init__(self, layers: int, hidden: int, device: str) -> None:
        random = torch.Generator("cpu").manual_seed(20)

        def weight(rows: int, columns: int, gain: float = 1.0) -> torch.Tensor:
            return (torch.randn(rows, columns, generator=random) * gain * rows**-0.5).to(device)

        self.device = device
        self.embedding = weight(VOCABULARY, hidden, VOCABULARY**0.5)
        self.head = weight(hidden, VOCABULARY, 3.0)
        self.layers = [
            Layer(
                weight(hidden, HEADS * D).bfloat16(),
                weight(hidden, D).bfloat16(),
                weight(HEADS * D, hidden).bfloat16(),
                weight(hidden, 2 * hidden),
                weight(2 * hidden, hidden),
                weight(hidden, INDEX_D),
                weight(hidden, INDEX_D),
                torch.randn(HEADS, generator=random).to(device),
            )
            for _ in range(layers)
        ]


def normalise(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6)


def indexer(layer: Layer, x: torch.Tensor, keys: torch.Tensor, visible: torch.Tensor, topk: int) -> torch.Tensor:
    """[n, topk] int32 positions of the best visible keys, -1 behind them. keys [n or 1, k, INDEX_D], visible [n, k]."""
    scores = torch.einsum("nd,nkd->nk", x @ layer.index_query, keys.expand(x.shape[0], -1, -1))
    scores = torch.where(visible, scores, -torch.inf)
    best = scores.topk(min(topk, scores.shape[1]), dim=1)
    picked = torch.where(torch.isneginf(best.values), -1, best.indices).to(torch.int32)
    return torch.nn.functional.pad(picked, (0, topk - picked.shape[1]), value=-1)


class Run:
    """One generation: prefill of the prompts, then greedy steps."""

    def __init__(self, model: Model, attention: Attention, prompts: torch.Tensor, steps: int) -> None:
        self.model, self.attention, self.prompts = model, attention, prompts
        self.batch, self.prompt = prompts.shape
        self.room = -(-(self.prompt + steps) // PAGE) * PAGE
        pages = self.batch * self.room // PAGE
        names = [FORMATS[i % len(FORMATS)] for i in range(len(model.layers))]
        self.caches = [[(kv_formats.empty_cache(prompts, pages, PAGE, name, 576), name)] for name in names]
        for i, name in EXTRA.items():
            if i < len(self.caches):
                self.caches[i].append((kv_formats.empty_cache(prompts, pages, PAGE, name, 256), name))
        self.keys = [torch.zeros(self.batch, self.room, INDEX_D, device=model.device) for _ in model.layers]

    def _store(self, i: int, slots: torch.Tensor, latent: torch.Tensor) -> None:
        for cache, name in self.caches[i]:
            kv_formats.write(cache, slots, latent, name, PAGE)

    def _block(
        self, layer: Layer, x: torch.Tensor, attend: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        n = normalise(x)
        query = (n.bfloat16() @ layer.query).reshape(-1, HEADS, D)
        latent = n.bfloat16() @ layer.latent
        x = x + (attend(n, query, latent).reshape(-1, HEADS * D) @ layer.output).float()
        return x + torch.nn.functional.silu(normalise(x) @ layer.up) @ layer.down

    def prefill(self) -> torch.Tensor:
        """Logits [batch, VOCABULARY] of the last tokens."""
        x = self.model.embedding[self.prompts.flatten()]
        position = torch.arange(self.prompt, device=x.device)
        visible = position[None, :] <= position[:, None]
        base = torch.arange(self.batch, device=x.device)[:, None]
        for i, layer in enumerate(self.model.layers):

            def attend(
                n: torch.Tensor, query: torch.Tensor, latent: torch.Tensor, i: int = i, layer: Layer = layer
            ) -> torch.Tensor:
                self._store(i, (base * self.room + position).flatten().to(torch.int32), latent)
                lists = []
                for b, rows in enumerate(n.reshape(self.batch, self.prompt, -1)):
                    self.keys[i][b, : self.prompt] = rows @ layer.index_key
                    own = indexer(layer, rows, self.keys[i][b : b + 1, : self.prompt], visible, TOPK)
                    lists.append(torch.where(own >= 0, own + b * self.prompt, -1).to(torch.int32))
                return self.attention.prefill(query, latent, torch.cat(lists), layer.sink)

            x = self._block(layer, x, attend)
        return normalise(x.reshape(self.batch, self.prompt, -1)[:, -1]) @ self.model.head

    def step(self, tokens: torch.Tensor, at: int) -> torch.Tensor:
        """Logits after one more token [batch] at position `at`."""
        x = self.model.embedding[tokens]
        position = torch.arange(self.room, device=x.device)
        base = (torch.arange(self.batch, device=x.device) * self.room)[:, None].to(torch.int32)
        for i, layer in enumerate(self.model.layers):

            def attend(
                n: torch.Tensor, query: torch.Tensor, latent: torch.Tensor, i: int = i, layer: Layer = layer
            ) -> torch.Tensor:
                self._store(i, base[:, 0] + at, latent)
                self.keys[i][:, at] = n @ layer.index_key
                two = len(self.caches[i]) == 2
                # With two caches the first holds the window, the second what lies before it.
                last = at - WINDOW if two else at
                own = indexer(layer, n, self.keys[i], (position <= last)[None].expand(self.batch, -1), TOPK)
                slots = [torch.where(own >= 0, own + base, -1).to(torch.int32)]
                if two:
                    recent = (at - torch.arange(WINDOW, device=n.device)).to(torch.int32)[None]
                    slots.insert(0, torch.where(recent >= 0, recent + base, -1).to(torch.int32))
                scopes = [(cache, rows, name) for (cache, name), rows in zip(self.caches[i], slots)]
                return self.attention.decode(query, scopes, layer.sink)

            x = self._block(layer, x, attend)
        return normalise(x) @ self.model.head

    def generate(self, steps: int, forced: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
        """(tokens [steps, batch], logits [steps, batch, VOCABULARY]); forced: tokens to take instead of the best."""
        tokens, logits = [], []
        current = self.prefill()
        for i in range(steps):
            logits.append(current)
            tokens.append(current.argmax(dim=-1))
            if i + 1 < steps:
                current = self.step(tokens[-1] if forced is None else forced[i], self.prompt + i)
        return torch.stack(tokens), torch.stack(logits)


def explain(tokens: torch.Tensor, control: torch.Tensor, logits: torch.Tensor, error: float) -> Tuple[bool, str]:
    """Compares each sequence up to its first difference. logits: the control's. error: what the accepted error of
    attention does to a logit."""
    ok, said = True, []
    for b in range(tokens.shape[1]):
        different = (tokens[:, b] != control[:, b]).nonzero()
        if len(different) == 0:
            said.append(f"sequence {b}: all {tokens.shape[0]} tokens equal")
            continue
        at = int(different[0])
        margin = float(logits[at, b, control[at, b]] - logits[at, b, tokens[at, b]])
        ok &= margin <= 2 * error
        said.append(
            f"sequence {b}: equal up to step {at}, where the margin is {margin:.2e} (explained below {2 * error:.2e})"
        )
    return ok, "; ".join(said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 4), ("prompt", 300), ("steps", 201), ("hidden", 512)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_grad_enabled(False)
    model = Model(options.layers, options.hidden, options.device)
    prompts = torch.randint(0, VOCABULARY, (2, options.prompt), generator=torch.Generator("cpu").manual_seed(4))
    prompts = prompts.to(options.device)

    def run(attention: Attention, forced: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
        return Run(model, attention, prompts, options.steps).generate(options.steps, forced)

    started = time.monotonic()
    tokens, logits = run(Attention(exact=False))
    again, logits_again = run(Attention(exact=False))
    control, control_logits = run(Attention(exact=True))
    # What 2 ULP of noise in every attention output does to the logits, along the control's own tokens.
    error = max(
        float((run(Attention(True, 2.0, seed, options.device), control)[1] - control_logits).abs().max())
        for seed in range(3)
    )
    own = float((run(Attention(exact=False), control)[1] - control_logits).abs().max())
    same = torch.equal(tokens, again) and torch.equal(logits, logits_again)
    ok, said = explain(tokens, control, control_logits, error)
    served = deepinfer.calls()
    only_smla = set(served) == {("smla", "prefill"), ("smla", "decode")} and deepinfer.fallbacks() == 0
    print(
        f"model: {options.layers} layers, {options.prompt} prompt tokens, {options.steps - 1} decode steps, "
        f"batch 2: {said}"
    )
    print(f"model: logits differ from the control's by {own:.2e} along its tokens, by {error:.2e} with 2 ULP of noise")
    print(
        f"model: twice the same bits: {same}; backend {deepinfer.select().name}, {served}, fall-backs "
        f"{deepinfer.fallbacks()}; {time.monotonic() - started:.0f} s"
    )
    passed = ok and same and only_smla and bool(torch.isfinite(logits).all())
    print(f"model: {'pass' if passed else 'FAIL'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
