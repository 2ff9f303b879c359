#!/usr/bin/env python3
"""Runs FlashMLA's own tests/test_flash_mla_sparse_prefill.py or test_flash_mla_sparse_decoding.py on smla: its cases
that have a kernel; the rest are only counted. The file is run as it is; only `flash_mla`, which its lib.py imports, is
smla.flash_mla here. Its benchmark cases are checked instead of timed (FlashMLA's kernel name is what they look for).

usage: flash_mla_cases.py TESTS [prefill|decode [N]]

TESTS: the folder of FlashMLA's tests, from its repository. prefill when not given. N: of decode's cases, of which there
are thousands, each N-th; 1, all, when not given. The file's own line counts cases that were not run as passed; the last
line does not.
"""

import ast
import contextlib
import importlib.machinery
import io
import pathlib
import sys
import types
from typing import Any, Callable, Dict

import smla
from smla import flash_mla

counts = {"run": 0, "failed": 0, "left out": 0, "passed over": 0}


def shim() -> types.ModuleType:
    """`flash_mla` with the functions that these cases use."""
    module = types.ModuleType("flash_mla")
    for name in ("flash_mla_sparse_fwd", "flash_mla_with_kvcache", "get_mla_metadata"):
        setattr(module, name, getattr(flash_mla, name))
    return module


def silent_rich() -> None:
    """`rich`, which prints the decode file's table of times, where it is not installed: prints nothing."""
    try:
        import rich.console  # noqa: F401
        import rich.table  # noqa: F401
    except ImportError:

        class Silent:
            def __init__(self, *_: Any, **__: Any) -> None:
                pass

            def __getattr__(self, _: str) -> Callable[..., None]:
                return lambda *_, **__: None

        for name, attribute in (("rich", None), ("rich.console", "Console"), ("rich.table", "Table")):
            module = types.ModuleType(name)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            if attribute:
                setattr(module, attribute, Silent)
                setattr(sys.modules["rich"], name.split(".")[1], module)
            sys.modules[name] = module


def take_seed(case: Any, scope: Dict[str, Any]) -> None:
    """A case that is not run keeps its seed's place."""
    if case.seed == -1:
        case.seed = scope["_counter"].next()


def checked(run: Callable[[Any], Any], case: Any, is_right: Callable[[Any], bool]) -> Any:
    """Runs a case, which is checked and not timed; its log is printed when it fails."""
    case.num_runs = 0
    log = io.StringIO()
    with contextlib.redirect_stdout(log):
        result = run(case)
    counts["run"] += 1
    if not is_right(result):
        counts["failed"] += 1
        print(log.getvalue())
    return result


def filtered_prefill(run_test: Callable[[Any], bool], scope: Dict[str, Any]) -> Callable[[Any], bool]:
    """run_test for the cases that have a kernel."""

    def run(case: Any) -> bool:
        if not smla.query_support(case.h_q, case.d_qk, case.d_v).supported:
            counts["left out"] += 1
            take_seed(case, scope)
            return True
        return checked(run_test, case, bool)

    return run


def decode_has_kernel(case: Any) -> bool:
    name = {576: "v32", 512: "v4"}.get(case.d_qk)
    extra = name if case.decode.extra_topk is not None else None
    return (
        name is not None
        and smla.query_support(
            case.h_q, case.d_qk, case.d_v, kv_format=name, extra_kv_format=extra, decode=True
        ).supported
    )


def filtered_decode(run_test: Callable[[Any], Any], scope: Dict[str, Any], step: int) -> Callable[[Any], Any]:
    """test_flash_mla for each step-th case, where it has a kernel. Its results are a dataclass, is_correct first."""
    seen = [0]

    def run(case: Any) -> Any:
        seen[0] += 1
        over = (seen[0] - 1) % step != 0
        if over or not decode_has_kernel(case):
            counts["passed over" if over else "left out"] += 1
            take_seed(case, scope)
            return scope["Result"](True, *[0.0] * 6)
        return checked(run_test, case, lambda result: result.is_correct)

    return run


def run_prefill(tree: ast.Module, path: pathlib.Path) -> None:
    """The file's own statements in its own order; between its run_test and its cases, the filter."""
    scope: Dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    at = (
        next(i for i, node in enumerate(tree.body) if isinstance(node, ast.FunctionDef) and node.name == "run_test") + 1
    )
    exec(compile(ast.Module(tree.body[:at], []), str(path), "exec"), scope)
    scope["run_test"] = filtered_prefill(scope["run_test"], scope)
    exec(compile(ast.Module(tree.body[at:], []), str(path), "exec"), scope)


def run_decode(tree: ast.Module, path: pathlib.Path, step: int) -> None:
    """The file as a module; then the filter, and its own main. main stops at the first case that fails."""
    silent_rich()
    scope: Dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(tree, str(path), "exec"), scope)
    scope["test_flash_mla"] = filtered_decode(scope["test_flash_mla"], scope, step)
    scope["main"]()


def main() -> int:
    folder, kind = pathlib.Path(sys.argv[1]), (sys.argv[2:] or ["prefill"])[0]
    name = {"prefill": "prefill", "decode": "decoding"}[kind]
    path = folder / f"test_flash_mla_sparse_{name}.py"
    sys.path.insert(0, str(folder))
    sys.modules["flash_mla"] = shim()
    tree = ast.parse(path.read_text(), str(path))
    code = 0
    try:
        if kind == "prefill":
            run_prefill(tree, path)
        else:
            run_decode(tree, path, int((sys.argv[3:] or ["1"])[0]))
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count or word != "passed over")
    print(f"\nFlashMLA's {kind} tests, cases: {told}")
    return 1 if code or counts["failed"] or not counts["run"] else 0


if __name__ == "__main__":
    sys.exit(main())
