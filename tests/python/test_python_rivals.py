"""tools/bench-python-rivals without a card: its shapes, lists, statistics, JSON and exit codes, and how a rival that
fails is told, with devices and kernels of plain Python."""

import argparse
import importlib
import json
import math
import pathlib
import struct
import subprocess
import sys
import types
from typing import Any, Callable, Dict, List, Tuple
from unittest import mock

import numpy
import pytest

from conftest import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tools"))
from python_rivals import command, lists, measure, shapes  # noqa: E402
from python_rivals.shapes import Shape, ShapeError  # noqa: E402

PROGRAM = [sys.executable, str(ROOT / "tools" / "bench-python-rivals")]
SMALL = Shape(s_q=4, topk=8, s_kv=32)


# ---- Shapes ----


def test_the_default_shapes_can_all_be_measured() -> None:
    found = shapes.read(ROOT / "tools" / "python_rivals" / "shapes.json")
    assert len(found) == len(set(found)) > 5
    assert not any(shape.why_not_here() for shape in found)


def test_shapes_of_smla_bench_are_taken(tmp_path: pathlib.Path) -> None:
    bench = BUILD / "bin" / "smla-bench"
    if not bench.exists():
        pytest.skip("no smla-bench in this build")
    path = tmp_path / "shapes.json"
    path.write_text(
        subprocess.run([bench, "prefill", "--list-shapes"], check=True, capture_output=True, text=True).stdout
    )
    found = shapes.read(path)
    assert [shape.to_json() for shape in found] == json.loads(path.read_text())
    assert "bf16" in next(shape for shape in found if shape.kv_format == "v4").why_not_here()
    assert all("plan" in shape.why_not_here() for shape in found if shape.persistent)


def test_shapes_have_the_defaults_of_smla_bench() -> None:
    assert shapes.from_json({"lengths": "3:5", "indices": None}, "x") == Shape(lengths=(3, 5))
    assert Shape(lengths=(3, 5)).text() == "h 64 d 512 topk 640 s_q 4096 s_kv 65536 uniform lengths 3:5 no sink"


@pytest.mark.parametrize(
    "item, words",
    [
        (7, "x is no object"),
        ({"heads": 64}, "x: 'heads' is no key of a shape"),
        ({"topk": "64"}, "x: 'topk' cannot be \"64\""),
        ({"topk": 0}, "x: 'topk' cannot be 0"),
        ({"sink": 1}, "x: 'sink' cannot be 1"),
        ({"lengths": [5, 3]}, "x: 'lengths' cannot be [5, 3]"),
        ({"lengths": 5}, "x: 'lengths' cannot be 5"),
        ({"lengths": [1, 641]}, "x: lengths up to 641 do not fit lists of 640"),
    ],
)
def test_what_is_no_shape_is_refused(item: Any, words: str) -> None:
    with pytest.raises(ShapeError) as error:
        shapes.from_json(item, "x")
    assert str(error.value) == words


@pytest.mark.parametrize("text", ["{}", "[]", "[", ""])
def test_a_file_without_shapes_is_refused(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ShapeError):
        shapes.read(tmp_path / "x.json")


# ---- Lists ----


def make(shape: Shape) -> lists.Lists:
    made = lists.make(shape, numpy.random.default_rng(3))
    assert made.indices.shape == (shape.s_q, shape.topk) and made.indices.dtype == numpy.int32
    return made


def test_uniform_lists_reach_the_whole_pool() -> None:
    made = make(Shape(s_q=50, topk=64, s_kv=32))
    assert set(made.indices.flat) == set(range(32)) and made.keys == 50 * 64 and made.lengths is None


def test_drifting_lists_change_by_a_twentieth() -> None:
    made = make(Shape(s_q=50, topk=60, s_kv=10**6, indices="drift"))
    changed = (made.indices[1:] != made.indices[:-1]).sum(axis=1)
    assert 0 < changed.max() <= 3 and changed.min() >= 1


def test_windows_hold_the_last_positions() -> None:
    made = make(Shape(s_q=5, topk=200, s_kv=1000, indices="window"))
    assert (made.indices[:, 0] == numpy.arange(995, 1000)).all()
    assert (made.indices[:, 127] == numpy.arange(995, 1000) - 127).all()
    assert (made.indices.max(axis=1) == numpy.arange(995, 1000)).all()
    first = make(Shape(s_q=3, topk=64, s_kv=3, indices="window"))
    assert first.keys == 6  # the first query has one position behind it, the last has three


def test_lengths_count_what_is_below_them() -> None:
    made = make(Shape(s_q=40, topk=8, s_kv=32, lengths=(2, 5)))
    assert set(made.lengths) == {2, 3, 4, 5} and made.keys == made.lengths.sum() and made.lengths.dtype == numpy.int32


def test_lists_come_from_files(tmp_path: pathlib.Path) -> None:
    wanted = numpy.arange(32, dtype=numpy.int32).reshape(4, 8) - 1
    raw, tensors = tmp_path / "lists.bin", tmp_path / "lists.safetensors"
    raw.write_bytes(wanted.tobytes())
    header = json.dumps({"indices": {"dtype": "I32", "shape": [4, 8], "data_offsets": [0, 128]}}).encode()
    tensors.write_bytes(struct.pack("<Q", len(header)) + header + wanted.tobytes())
    for path in (raw, tensors):
        made = make(Shape(s_q=4, topk=8, s_kv=30, indices=str(path)))
        assert (made.indices == wanted).all() and made.keys == 30  # -1 and 30 are none
    with pytest.raises(ShapeError, match="has 128 bytes; lists of .5, 8. need 160"):
        make(Shape(s_q=5, topk=8, indices=str(raw)))
    with pytest.raises(ShapeError, match="no I32 with 4 rows and 4 columns"):
        make(Shape(s_q=4, topk=4, indices=str(tensors)))
    with pytest.raises(ShapeError, match="none of uniform, drift, window, nor a file"):
        make(Shape(indices="unform"))


# ---- Measuring, with a device that only counts ----


class FakeDevice:
    """Time passes when a kernel says so. Notes what ran."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: List[str] = []
        self.broken = False

    def make(self, shape: Shape) -> Any:
        return types.SimpleNamespace(shape=shape, keys=[30, 32], copies=2, copy_bytes=100, device=self)

    def check(self) -> None:
        if self.broken:
            raise measure.DeviceFault("an illegal address")

    def elapsed_us(self, work: Callable[[], Any]) -> float:
        before = self.now
        work()
        return self.now - before

    def capture(self, call: Callable[[int], Any], launches: int, copies: int) -> Callable[[], None]:
        self.log.append("capture")

        def replay() -> None:
            for i in range(launches):
                call(i % copies)
            self.log.append("end")

        return replay

    def poison(self, problem: Any) -> None:
        self.log.append("poison")

    def compare(self, ours: float, theirs: float) -> Tuple[float, float]:
        return (math.inf if math.isnan(theirs) else abs(ours - theirs)), abs(ours)


class FakeKernel:
    """Takes `us` a launch and gives `out`; fails at the call number `fails_at`, or when it is bound."""

    def __init__(self, name: str, us: float, out: float = 1.0, **how: Any) -> None:
        self.name, self.us, self.out, self.how = name, us, out, how
        self.calls = 0

    def bind(self, problem: Any) -> measure.Bound:
        if "bind" in self.how:
            raise self.how["bind"]
        return measure.Bound(lambda i: self.call(problem.device, i), self.how.get("note", ""))

    def call(self, device: FakeDevice, copy: int) -> float:
        self.calls += 1
        if self.calls == self.how.get("fails_at"):
            device.broken = self.how.get("breaks", False)
            raise RuntimeError("no\n  kernel image")
        device.now += self.us + copy  # copy 1 takes one more
        device.log.append(self.name)
        return self.out

    def variant(self, shape: Shape) -> str:
        return f"fake_h{shape.h_q}"


def run(
    rivals: List[Any], ours: Any = None, shape: Shape = SMALL, **settings: Any
) -> Tuple[Dict[str, Any], FakeDevice]:
    device = FakeDevice()
    settings = {"runs": 30, "launches": 4, **settings}
    return measure.measure_shape(device, shape, ours or FakeKernel("smla", 10), rivals, **settings), device


def test_a_result_has_the_form_of_smla_bench() -> None:
    result, _ = run([FakeKernel("R", 20, 1.5, note="padded to 64 heads")])
    wanted = json.loads((ROOT / "tests" / "tools" / "results" / "h200.json").read_text())["results"][0]
    assert list(result) == list(wanted)
    assert result["shape"].keys() == wanted["shape"].keys() and result["smla"].keys() == wanted["smla"].keys()
    assert result["smla"]["us"].keys() == wanted["smla"]["us"].keys()
    rival = result["rivals"][0]
    assert set(rival) == set(wanted["rivals"][0]) | {"note"} and rival["note"] == "padded to 64 heads"
    assert result["variant"] == "fake_h64" and result["keys"] == 31 and result["token_bytes"] == 1024
    assert (result["launches"], result["copies"], result["copy_bytes"], result["rotated_bytes"]) == (4, 2, 100, 200)
    assert result["smla"]["us"] == {"median": 10.5, "min": 10.5, "max": 10.5, "p10": 10.5, "p90": 10.5, "count": 30}
    assert result["smla"]["tflops"] == round(2 * 31 * 64 * 1024 / 10.5 / 1e6, 3)
    assert result["smla"]["tbs"] == round(31 * 1024 / 10.5 / 1e6, 5)
    assert (rival["ratio"], rival["difference"], rival["largest"]) == (round(20.5 / 10.5, 5), 0.5, 1.0)
    json.dumps(result, allow_nan=False)


def test_subjects_are_replayed_in_turn_after_warming_up() -> None:
    _, device = run([FakeKernel("R", 20), FakeKernel("S", 5)], runs=3)
    replays = " ".join(device.log).split(" capture ")[-1].split(" end")
    assert [each.split()[-1] for each in replays if each] == ["smla", "R", "S"] * (3 + 3)
    assert device.log[:4] == ["poison", "smla", "R", "S"]


@pytest.mark.parametrize("us, launches", [(10, 1000 // 2 + 12), (1000, 10), (10000, 4), (0, 512)])
def test_a_replay_takes_some_ten_milliseconds(us: float, launches: int) -> None:
    assert run([], FakeKernel("smla", us), runs=1, launches=0)[0]["launches"] == launches


def test_a_nan_of_one_alone_is_no_number() -> None:
    assert run([FakeKernel("R", 20, math.nan)])[0]["rivals"][0]["difference"] is None


@pytest.mark.parametrize(
    "how, words",
    [
        ({"bind": measure.NotItsShape("no sinks")}, "no sinks"),
        ({"bind": ImportError("no module x")}, "ImportError: no module x"),
        ({"bind": ValueError()}, "ValueError"),
        ({"fails_at": 1}, "RuntimeError: no kernel image"),  # when it runs once
        ({"fails_at": 3}, "RuntimeError: no kernel image"),  # while its time is estimated
        ({"fails_at": 6}, "RuntimeError: no kernel image"),  # in the host times
        ({"fails_at": 400}, "RuntimeError: no kernel image"),  # in a replay
    ],
)
def test_a_rival_that_fails_is_told_and_the_others_are_measured(how: Dict[str, Any], words: str) -> None:
    result, _ = run([FakeKernel("R", 20, **how), FakeKernel("S", 5)], runs=100)
    assert result["rivals"][0] == {"name": "R", "not_run": words}
    assert result["smla"]["us"]["count"] == result["rivals"][1]["us"]["count"] == 100


def test_a_rival_that_is_not_there_is_told() -> None:
    absent = types.SimpleNamespace(name="tilelang", not_run="ModuleNotFoundError: No module named 'tilelang'")
    assert run([absent])[0]["rivals"] == [vars(absent)]


def test_without_smla_there_is_no_result() -> None:
    result, _ = run([FakeKernel("R", 20)], FakeKernel("smla", 10, fails_at=1))
    assert result == {"shape": SMALL.to_json(), "not_run": "RuntimeError: no kernel image"}
    quantised = Shape(kv_format="v4", page=64)
    assert "rows of bf16" in run([], shape=quantised)[0]["not_run"]


def test_spread_is_smla_benchs() -> None:
    assert measure.spread([]) is None
    values = [float(i) for i in range(1, 31)]
    wanted = {"median": 16.0, "min": 1.0, "max": 30.0, "p10": 3.0, "p90": 28.0, "count": 30}
    assert measure.spread(values[::-1]) == wanted


# ---- The command ----


def outcome(ours: FakeKernel, rivals: List[Any], wanted: List[Shape]) -> Tuple[int, List[Dict[str, Any]]]:
    results: List[Dict[str, Any]] = []
    options = argparse.Namespace(runs=2, launches=4)
    return command.run(FakeDevice(), ours, rivals, wanted, options, results), results


def test_exit_codes(capsys: pytest.CaptureFixture) -> None:
    fails = FakeKernel("R", 20, bind=ImportError("x"))
    assert outcome(FakeKernel("smla", 10), [fails], [SMALL])[0] == command.FINE
    assert outcome(FakeKernel("smla", 10, fails_at=1), [], [SMALL])[0] == command.UNAVAILABLE
    assert outcome(FakeKernel("smla", 10), [], [Shape(persistent=True), SMALL])[0] == command.FINE
    code, results = outcome(FakeKernel("smla", 10), [FakeKernel("R", 20, fails_at=200, breaks=True)], [SMALL] * 3)
    assert code == command.FAULT and len(results) == 2 and "smla" in results[0]
    assert results[1]["not_run"] == "device fault: an illegal address"
    assert "device fault: an illegal address" in capsys.readouterr().err


def test_results_are_told_and_taken_by_smla_bench(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture) -> None:
    rivals = [FakeKernel("R", 20, note="padded to 64 heads"), FakeKernel("S", 5, bind=measure.NotItsShape("no sinks"))]
    _, results = outcome(FakeKernel("smla", 10), rivals, [SMALL, Shape(persistent=True)])
    about = {"version": "0.1.0", "device": "a card", "driver_version": 13000, "driver": None, "command": "x"}
    root = command.root_json(about, 2, results)
    command.print_text(root)
    told = capsys.readouterr().out
    assert "R: 20.5 us (20.5 to 20.5), " in told and "1.952 x smla, out differs by at most 0 of 1 (padded" in told
    assert "S: not run: no sinks" in told and "no sink persistent: not run: from Python the plan" in told
    bench = BUILD / "bin" / "smla-bench"
    if bench.exists():
        (tmp_path / "x.json").write_text(json.dumps(root))
        table = subprocess.check_output([bench, "table", tmp_path / "x.json"], text=True)
        assert "| 10.5 (10.5 to 10.5) | 20.5 | 1.95 | not run | |" in table


def call(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True)


def test_without_cuda_it_says_so() -> None:
    if not command.why_no_cuda():
        pytest.skip("there is a card here")
    done = call("--json")
    assert done.returncode == 3 and done.stdout == "" and "there is no CUDA here: " in done.stderr


def test_command_line(tmp_path: pathlib.Path) -> None:
    done = call("--help")
    assert done.returncode == 0 and done.stdout == command.HELP + "\n" and max(map(len, done.stdout.split("\n"))) < 99
    for arguments in (
        ["--runs", "0"],
        ["--rival", "x"],
        ["--launches", "many"],
        ["--shapes", str(tmp_path / "x")],
        ["y"],
    ):
        done = call(*arguments)
        assert done.returncode == 2 and "bench-python-rivals: " in done.stderr, arguments


# ---- Rivals, as far as they go without torch ----


@pytest.fixture
def rivals(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, with something that is called torch."""
    for name in ("torch", "python_rivals.card", "python_rivals.rivals"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", mock.MagicMock())
    return importlib.import_module("python_rivals.rivals")


def test_rivals_that_are_not_installed_are_absent(rivals: Any) -> None:
    for name in ("tilelang", "triton"):
        if importlib.util.find_spec(name):
            pytest.skip(f"{name} is installed here")
    first, second = rivals.load(["tilelang", "triton"], rivals.Options())
    assert first == ("tilelang", "ModuleNotFoundError: No module named 'tilelang'")
    assert second == ("triton", "ModuleNotFoundError: No module named 'triton'")
    assert tuple(rivals.RIVALS) == command.RIVALS


def test_flag_gems_is_loaded_from_its_file(
    rivals: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = types.ModuleType("triton")
    triton.__version__ = "3.6.0"
    monkeypatch.setitem(sys.modules, "triton", triton)
    (found,) = rivals.load(["triton"], rivals.Options())
    assert found.not_run == "ImportError: flag_gems is not installed, and --flag-gems names no file"
    source = "from flag_gems.utils.triton_version_utils import has_triton_tle\n"
    source += "assert not has_triton_tle(3, 6, 0)\nflash_mla_sparse_fwd = 7\n"
    (tmp_path / "flashmla_sparse.py").write_text(source)
    (found,) = rivals.load(["triton"], rivals.Options(flag_gems=tmp_path / "flashmla_sparse.py"))
    assert found.name == "FlagGems (Triton 3.6.0)" and found.forward == 7
    for name in [name for name in sys.modules if name.split(".")[0] == "flag_gems"]:
        monkeypatch.delitem(sys.modules, name)
    # As installed: its package is found and not imported.
    (tmp_path / "flag_gems" / "fused").mkdir(parents=True)
    (tmp_path / "flag_gems" / "__init__.py").write_text("raise ImportError('it needs much')\n")
    (tmp_path / "flag_gems" / "fused" / "flashmla_sparse.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = rivals.load(["triton"], rivals.Options())
    assert found.name == "FlagGems ? (Triton 3.6.0)"
    for name in [name for name in sys.modules if name.split(".")[0] == "flag_gems"]:
        monkeypatch.delitem(sys.modules, name)


def test_tilelangs_examples_are_read_and_patched(
    rivals: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tilelang", types.ModuleType("tilelang"))
    (found,) = rivals.load(["tilelang"], rivals.Options())
    assert "--tilelang names that folder" in found.not_run
    folder = tmp_path / "deepseek_v32"
    folder.mkdir()
    (folder / "sparse_mla_fwd.py").write_text("def f(q_i, seq_len_kv):\n    max_kv_i = q_i\n    return max_kv_i\n")
    (tmp_path / "sparse_attn_fwd_sm90.py").write_text("from utils import assert_tensors_similar\nx = 5\n")
    (found,) = rivals.load(["tilelang"], rivals.Options(tilelang=tmp_path))
    module = found._module("deepseek_v32", "sparse_mla_fwd", rivals.without_causal_mask)
    assert module.f(3, 100) == 99 and found._module("deepseek_v32", "sparse_mla_fwd") is module
    assert found._module("deepseek_v4", "sparse_attn_fwd_sm90").x == 5
    sys.modules.pop("utils", None)
    with pytest.raises(measure.NotItsShape, match="the causal mask was not found"):
        rivals.without_causal_mask("max_kv_i = 0\n")
    assert rivals.padding_note(64, 64) == "" and rivals.padding_note(16, 64) == "padded to 64 heads"
