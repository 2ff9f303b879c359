#!/usr/bin/env python3
"""Runs FlashMLA's own tests/test_flash_mla_sparse_prefill.py on smla: its cases that have a kernel; the rest are only
counted. The file is run as it is; only `flash_mla`, which its lib.py imports, is smla.flash_mla here. Its
four benchmark cases are checked instead of timed (FlashMLA's kernel name is what they look for).

usage: flash_mla_cases.py TESTS    the folder of FlashMLA's tests, from its repository
"""

import ast
import contextlib
import io
import pathlib
import sys
import types
from typing import Any, Callable, Dict

import smla
from smla.flash_mla import flash_mla_sparse_fwd

counts = {"run": 0, "failed": 0, "left out": 0}


def shim() -> types.ModuleType:
    """`flash_mla` with the one function that these cases use."""
    module = types.ModuleType("flash_mla")
    module.flash_mla_sparse_fwd = flash_mla_sparse_fwd
    return module


def filtered(run_test: Callable[[Any], bool], scope: Dict[str, Any]) -> Callable[[Any], bool]:
    """run_test for the cases that have a kernel; the others keep their seed's place."""

    def run(case: Any) -> bool:
        supported = smla.query_support(case.h_q, case.d_qk, case.d_v).supported
        if not supported:
            counts["left out"] += 1
            if case.seed == -1:
                scope["_counter"].next()
            return True
        if case.num_runs:
            case.num_runs = 0
        log = io.StringIO()
        with contextlib.redirect_stdout(log):
            ok = run_test(case)
        counts["run"] += 1
        if not ok:
            counts["failed"] += 1
            print(log.getvalue())
        return ok

    return run


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    path = folder / "test_flash_mla_sparse_prefill.py"
    sys.path.insert(0, str(folder))
    sys.modules["flash_mla"] = shim()
    tree = ast.parse(path.read_text(), str(path))
    at = (
        next(i for i, node in enumerate(tree.body) if isinstance(node, ast.FunctionDef) and node.name == "run_test") + 1
    )
    scope: Dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    # The file's own statements in its own order; between its run_test and its cases, the filter.
    exec(compile(ast.Module(tree.body[:at], []), str(path), "exec"), scope)
    scope["run_test"] = filtered(scope["run_test"], scope)
    code = 0
    try:
        exec(compile(ast.Module(tree.body[at:], []), str(path), "exec"), scope)
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    print(
        f"FlashMLA's prefill tests: {counts['run']} cases run, {counts['failed']} failed, {counts['left out']} left out"
    )
    return 1 if code or counts["failed"] or not counts["run"] else 0


if __name__ == "__main__":
    sys.exit(main())
