"""The command: its options, its JSON, its exit codes."""

import argparse
import datetime
import importlib.util
import json
import pathlib
import shlex
import sys
from typing import Any, Dict, List, Optional, Sequence

from . import measure, shapes

NAME = "bench-python-rivals"
FINE, USAGE, UNAVAILABLE, FAULT = 0, 2, 3, 4
RIVALS = ("tilelang", "triton")
DEFAULT_RUNS = 30

HELP = """\
usage: tools/bench-python-rivals [--tilelang EXAMPLES] [--flag-gems FILE] [options]

Times prefill kernels that live in Python, TileLang's and FlagGems' (Triton), beside smla's on
the same inputs: device time by graphs of many launches, replayed in turn, as smla-bench prefill
does it, and by how much each rival's out differs from smla's. Runs where torch sees a card; smla
is called through its Python package, so SMLA_LIBRARY may have to name libsmla.so.

  --shapes FILE           shapes as smla-bench prefill takes them; rows of bf16 alone are
                          measured (tools/python_rivals/shapes.json)
  --rival NAME            tilelang or triton; may be repeated (both)
  --tilelang EXAMPLES     the folder 'examples' of TileLang's repository, which its package lacks,
                          or one with sparse_attn_fwd_sm90.py and sparse_mla_fwd.py
  --flag-gems FILE        its flashmla_sparse.py (the installed package's)
  --site DIR              look for packages there too, last; may be repeated
  --runs N                replays of each (30)
  --launches N            launches in a replay (as many as take 10 ms, from 4 to 512)
  --seed N                of the inputs (0)
  --json                  print the result as JSON, in the form of smla-bench prefill's
  --help

A rival that cannot be imported, does not take a shape or fails is told with its reason.

Exit: 0 smla ran, 2 usage, 3 there is no CUDA here or nothing ran, 4 device fault."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    def positive(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= 100000:
            raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to 100000")
        return int(text)

    parser = argparse.ArgumentParser(
        prog=NAME, usage=HELP.split("\n")[0][len("usage: ") :], add_help=False, allow_abbrev=False
    )
    parser.add_argument("--shapes", type=pathlib.Path, default=pathlib.Path(__file__).with_name("shapes.json"))
    parser.add_argument("--rival", action="append", choices=RIVALS)
    parser.add_argument("--tilelang", type=pathlib.Path)
    parser.add_argument("--flag-gems", type=pathlib.Path)
    parser.add_argument("--site", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--runs", type=positive, default=DEFAULT_RUNS)
    parser.add_argument("--launches", type=positive, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    if "--help" in arguments:
        print(HELP)
        sys.exit(FINE)
    return parser.parse_args(arguments)


def say(text: str) -> None:
    print(f"{NAME}: {text}", file=sys.stderr)


def why_no_cuda() -> str:
    """ "" where torch sees a card."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    import torch

    return "" if torch.cuda.is_available() else f"torch {torch.__version__} sees no card"


# ---- Results ----


def root_json(about: Dict[str, Any], runs: int, results: List[Dict[str, Any]]) -> Dict[str, Any]:
    """The result, as smla-bench prefill --json has it. about: what is known of card and programs."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "bench": "prefill",
        **about,
        "date": now,
        "runs": runs,
        "clocks_read": False,
        "ceilings": {"not_run": "smla-bench prefill measures them"},
        "results": results,
    }


def subject_line(subject: Dict[str, Any]) -> str:
    if "not_run" in subject:
        return f"  {subject['name']}: not run: {subject['not_run']}"
    us = subject["us"]
    line = f"  {subject['name']}: {us['median']:.1f} us ({us['p10']:.1f} to {us['p90']:.1f})"
    line += f", {subject['tflops']:.0f} TFLOP/s"
    if "ratio" in subject:
        apart = "a NaN of one alone" if subject["difference"] is None else f"{subject['difference']:.3g}"
        line += f", {subject['ratio']:.3f} x smla, out differs by at most {apart} of {subject['largest']:.3g}"
    return line + (f" ({subject['note']})" if "note" in subject else "")


def print_text(root: Dict[str, Any]) -> None:
    print(f"prefill: {root['device']}, {root['date']}, median of {root['runs']} replays")
    for result in root["results"]:
        text = shapes.from_json(result["shape"], "result").text()
        if "not_run" in result:
            print(f"{text}: not run: {result['not_run']}")
            continue
        print(f"{text} ({result['variant']}; {result['launches']} launches a replay)")
        for subject in [result["smla"], *result["rivals"]]:
            print(subject_line(subject))


# ---- Running ----


def run(
    device: measure.Device,
    ours: measure.Subject,
    rivals: Sequence[Any],
    wanted: Sequence[shapes.Shape],
    options: argparse.Namespace,
    results: List[Dict[str, Any]],
) -> int:
    """Measures shape by shape into results; returns the exit code."""
    for i, shape in enumerate(wanted, 1):
        if sys.stderr.isatty():
            say(f"[{i}/{len(wanted)}] {shape.text()}")
        try:
            results.append(measure.measure_shape(device, shape, ours, rivals, options.runs, options.launches))
        except measure.DeviceFault as error:
            results.append({"shape": shape.to_json(), "not_run": f"device fault: {error}"})
            say(f"{shape.text()}: device fault: {error}")
            return FAULT
    return FINE if any("smla" in result for result in results) else UNAVAILABLE


def on_card(options: argparse.Namespace, wanted: Sequence[shapes.Shape], arguments: Sequence[str]) -> int:
    import torch

    from . import card, rivals

    device = card.Card(options.seed)
    try:
        ours = rivals.Smla()
        version = ours.smla.native_version()
    except Exception as error:
        say(f"smla: {measure.reason(error)}")
        return UNAVAILABLE
    subjects = rivals.load(options.rival or RIVALS, rivals.Options(options.tilelang, options.flag_gems))
    cuda, driver = device.driver()
    about = {
        "version": version,
        "command": shlex.join([NAME, *arguments]),
        "device": device.name(),
        "card": device.facts(),
        "target": ours.target(),
        "driver_version": cuda,
        "driver": driver,
        "python": {"torch": torch.__version__, "triton": rivals.version("triton")},
    }
    results: List[Dict[str, Any]] = []
    code = run(device, ours, subjects, wanted, options, results)
    root = root_json(about, options.runs, results)
    if options.json:
        print(json.dumps(root, indent=2))
    else:
        print_text(root)
    return code


def main(arguments: Optional[Sequence[str]] = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    try:
        wanted = shapes.read(options.shapes)
    except shapes.ShapeError as error:
        say(str(error))
        return USAGE
    sys.path += [str(folder) for folder in options.site]
    why = why_no_cuda()
    if why:
        say(f"there is no CUDA here: {why}")
        return UNAVAILABLE
    return on_card(options, wanted, arguments)
