"""Who is measured: smla through its Python package, and kernels of public packages that compute the same.

A rival's class loads it (an exception says why it is not there) and binds it to a shape (NotItsShape says why not).
What a rival cannot be told is written into its inputs, outside what is timed."""

import importlib
import importlib.metadata
import importlib.util
import pathlib
import sys
import tempfile
import types
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from .card import Problem
from .measure import Bound, NotItsShape, reason
from .shapes import Shape

BLOCK = 64  # TileLang's examples take so many keys at once, and so many heads


class Absent(NamedTuple):
    """A rival that could not be loaded."""

    name: str
    not_run: str


class Options(NamedTuple):
    tilelang: Optional[pathlib.Path] = None  # the folder `examples` of its repository, or one with the files
    flag_gems: Optional[pathlib.Path] = None  # its file flashmla_sparse.py; None: of the package


# ---- smla ----


class Smla:
    name = "smla"

    def __init__(self) -> None:
        import smla

        self.smla = smla

    def bind(self, problem: Problem) -> Bound:
        prefill = self.smla.prefill
        self.smla.prepare(problem.shape.h_q, problem.shape.d_qk)

        def call(i: int) -> torch.Tensor:
            copy = problem.inputs[i]
            return prefill(
                copy.query,
                problem.kv,
                copy.indices,
                problem.scale,
                topk_length=copy.lengths,
                attn_sink=problem.sink,
                out=copy.out,
                lse=copy.lse,
                max_logits=copy.max_logits,
            )[0]

        return Bound(call)

    def variant(self, shape: Shape) -> str:
        return self.smla.query_support(shape.h_q, shape.d_qk).variant

    def target(self) -> str:
        return self.smla.query_support(64, 512).target


# ---- Loading files of other projects ----


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "?"


def load_file(name: str, path: pathlib.Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# ---- Triton ----


class Triton:
    """FlagGems' flash_mla_sparse_fwd, from its one file, which needs Triton alone."""

    def __init__(self, options: Options) -> None:
        import triton

        path, release = options.flag_gems, ""
        if path is None:
            spec = importlib.util.find_spec("flag_gems")  # finds it; importing it would need all that it needs
            if spec is None:
                raise ImportError("flag_gems is not installed, and --flag-gems names no file")
            path = pathlib.Path(next(iter(spec.submodule_search_locations))) / "fused" / "flashmla_sparse.py"
            release = " " + version("flag-gems")
        # Newer ones ask the package whether this Triton is one of their own; this one is not.
        versions = types.ModuleType("flag_gems.utils.triton_version_utils")
        versions.has_triton_tle = lambda *_: False
        for name in ("flag_gems", "flag_gems.utils"):
            sys.modules.setdefault(name, types.ModuleType(name))
        sys.modules.setdefault(versions.__name__, versions)
        self.forward = load_file("smla_rival_flag_gems", path).flash_mla_sparse_fwd
        self.name = f"FlagGems{release} (Triton {triton.__version__})"

    def bind(self, problem: Problem) -> Bound:
        heads = problem.shape.h_q
        wanted = 64 if heads <= 64 else 128
        queries = padded_queries(problem, wanted)
        sink = None if problem.sink is None else torch.nn.functional.pad(problem.sink, (0, wanted - heads))

        def call(i: int) -> torch.Tensor:
            copy = problem.inputs[i]
            out = self.forward(
                queries[i],
                problem.kv[:, None],
                copy.indices[:, None],
                problem.scale,
                attn_sink=sink,
                topk_length=copy.lengths,
            )[0]
            return out[:, :heads]

        return Bound(call, padding_note(heads, wanted))


def padded_queries(problem: Problem, heads: int) -> List[torch.Tensor]:
    """Queries with heads of zeros behind their own."""
    more = heads - problem.shape.h_q
    return [torch.nn.functional.pad(copy.query, (0, 0, 0, more)) if more else copy.query for copy in problem.inputs]


def padding_note(heads: int, wanted: int) -> str:
    return "" if heads == wanted else f"padded to {wanted} heads"


# ---- TileLang ----


class TileLang:
    """The kernels of TileLang's examples: sparse_attn_fwd_sm90.py for d 512, sparse_mla_fwd.py for d 576."""

    def __init__(self, options: Options) -> None:
        importlib.import_module("tilelang")
        if options.tilelang is None:
            raise ImportError("its kernels are among its repository's examples: --tilelang names that folder")
        self.folder = options.tilelang
        self.modules: Dict[str, types.ModuleType] = {}
        self.work = tempfile.TemporaryDirectory()
        self.name = f"TileLang {version('tilelang')}"

    def _module(self, folder: str, name: str, patch: Callable[[str], str] = lambda source: source) -> types.ModuleType:
        """An example, from the repository's folder or beside others. Read from a file, since TileLang reads it too."""
        if name not in self.modules:
            path = self.folder / folder / f"{name}.py"
            path = path if path.exists() else self.folder / f"{name}.py"
            copy = pathlib.Path(self.work.name) / f"{name}.py"
            copy.write_text(patch(path.read_text(encoding="utf-8")), encoding="utf-8")
            helper = types.ModuleType("utils")
            helper.assert_tensors_similar = None  # of the example's own test
            sys.modules.setdefault("utils", helper)
            self.modules[name] = load_file(f"smla_rival_tilelang_{name}", copy)
        return self.modules[name]

    def bind(self, problem: Problem) -> Bound:
        return self._bind_512(problem) if problem.shape.d_qk == 512 else self._bind_576(problem)

    def _bind_512(self, problem: Problem) -> Bound:
        shape = problem.shape
        heads = -(-shape.h_q // BLOCK) * BLOCK
        indices = masked_lists(problem, invalid=-1)
        sink = torch.full((heads,), float("-inf"), device="cuda", dtype=torch.bfloat16)
        if problem.sink is not None:
            sink[: shape.h_q] = problem.sink
        queries = padded_queries(problem, heads)
        kernel = self._module("deepseek_v4", "sparse_attn_fwd_sm90").sparse_attn_fwd(
            batch=1,
            heads=heads,
            seq_len=shape.s_q,
            seq_len_kv=shape.s_kv,
            dim=512,
            topk=indices[0].shape[1],
            sm_scale=problem.scale,
        )
        kv = problem.kv[None]

        def call(i: int) -> torch.Tensor:
            return kernel(queries[i][None], kv, indices[i][None], sink)[0, :, : shape.h_q]

        return Bound(call, padding_note(shape.h_q, heads))

    def _bind_576(self, problem: Problem) -> Bound:
        shape = problem.shape
        if shape.sink:
            raise NotItsShape("its kernel for d_qk 576 has no sinks")
        heads = -(-shape.h_q // BLOCK) * BLOCK
        indices = masked_lists(problem, invalid=shape.s_kv)
        queries = padded_queries(problem, heads)
        forward = self._module("deepseek_v32", "sparse_mla_fwd", without_causal_mask).sparse_mla_fwd_interface
        kv = problem.kv[None, :, None]

        def call(i: int) -> torch.Tensor:
            out = forward(queries[i][None], kv, indices[i][None, :, None], problem.scale)[0]
            return out[0, :, : shape.h_q]

        notes = ["its causal mask taken out", padding_note(shape.h_q, heads)]
        return Bound(call, "; ".join(filter(None, notes)))


def without_causal_mask(source: str) -> str:
    """The example masks keys behind the query's own position; smla's lists are masked by their entries alone."""
    line = "max_kv_i = q_i\n"
    if source.count(line) != 1:
        raise NotItsShape("its example for d_qk 576 is another: the causal mask was not found in it")
    return source.replace(line, "max_kv_i = seq_len_kv - 1\n")


def masked_lists(problem: Problem, invalid: int) -> List[torch.Tensor]:
    """Lists whose entries past the length, and up to a multiple of BLOCK, say `invalid`: there are no lengths."""
    topk = problem.shape.topk
    result = []
    for copy in problem.inputs:
        indices = copy.indices
        if copy.lengths is not None:
            indices = torch.where(torch.arange(topk, device="cuda") < copy.lengths[:, None], indices, invalid)
        indices = torch.where((indices < 0) | (indices >= problem.shape.s_kv), invalid, indices)
        result.append(torch.nn.functional.pad(indices, (0, -topk % BLOCK), value=invalid).contiguous())
    return result


# ---- All of them ----

RIVALS: Dict[str, Callable[[Options], Any]] = {"tilelang": TileLang, "triton": Triton}


def load(names: Sequence[str], options: Options) -> List[Any]:
    """Subjects; one that cannot be loaded is Absent and says why."""
    loaded = []
    for name in names:
        try:
            loaded.append(RIVALS[name](options))
        except Exception as error:
            loaded.append(Absent(name, reason(error)))
    return loaded
