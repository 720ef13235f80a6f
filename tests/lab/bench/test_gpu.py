"""The GPU's checks: what they are held against, and that the same code runs without one."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrt.base.errors import EngineUnavailable, UsageError
from agentrt.cli.main import answer
from agentrt.engine.process.hardware import gpu_info
from agentrt.lab.arms.gpu_idle import idleness
from agentrt.lab.bench import gpu
from agentrt.lab.bench.drafts.points import points_of
from agentrt.lab.bench.gpu import check_gpu, failures, kernels_part
from agentrt.lab.bench.gpu_plan import HOPPER, REHEARSAL, TARGETS, GpuPlan, GpuTarget
from agentrt.lab.bench.gpu_products import product_figures
from agentrt.lab.bench.gpu_speculation import draft_figures, speculation_part
from agentrt.lab.checkpoints.shapes import SHAPES


def test_without_a_gpu_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if gpu_info()["count"]:
        pytest.skip("there is one")
    path = tmp_path / "gpu.json"
    assert answer(["bench", "gpu", "--json", str(path)]) == 3
    assert "no GPU is here" in capsys.readouterr().err
    assert not path.exists()


def test_a_plan_names_what_its_targets_need() -> None:
    for plan in (HOPPER, REHEARSAL):
        rows = {name for part in plan.speed for name in part.points}
        assert {"one", "thirty-two", "siblings", "unshared"} <= rows
        for part in plan.speed:
            assert set(part.idle) | set(part.once) <= set(part.points)
            longest = max(row.prompt_tokens + row.new_tokens for row in part.points.values())
            assert longest <= SHAPES[part.shape].window_tokens
    (llama, *_) = HOPPER.speed
    unshared = llama.points["unshared"]
    tokens = unshared.batch * (unshared.prompt_tokens + unshared.new_tokens)
    assert llama.engine["kv_pages"] * 16 > tokens


def test_a_plan_holds_drafts_of_all_kinds_to_the_tokens_without() -> None:
    """On the GPU by the Triton kernels, with captured steps and without, before speeds are told."""
    for plan in (HOPPER, REHEARSAL):
        assert plan.speculation
        assert all(shape in SHAPES for shape in plan.speculation)
        assert {one.device for one in plan.drafts} == {plan.device}
        shapes = {point.text for one in plan.drafts for point in points_of(one)}
        assert {"copy", "form", "new"} <= shapes
    assert {one.kernels for one in HOPPER.drafts} == {"triton"}
    assert None in {point.text for one in HOPPER.drafts for point in points_of(one)}
    names = {target.name for target in TARGETS}
    assert {f"drafts.{text}.ratio" for text in ("copy", "form", "new")} <= names


@pytest.mark.slow
def test_drafts_of_all_kinds_leave_every_token_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    part = speculation_part("micro", "cpu")
    assert part["unlike"] == []
    assert {"site", "model"} <= {name for name, count in part["accepted"].items() if count}
    assert part["rejected"]["model"] > 0
    (told, *_) = part["outputs"].values()
    assert len(set(told.values())) == 2  # one at each temperature


def test_ratios_of_drafts_are_those_of_one_sequence() -> None:
    def point(text: str | None, batch: int, ratio: float) -> dict[str, Any]:
        return {"text": text, "batch": batch, "figures": {"ratio": {"value": ratio}}}

    points = {"a": point("copy", 1, 0.3), "b": point("copy", 16, 0.7), "c": point(None, 1, 0.9)}
    parts = {"kernels": {"checks": []}, "drafts of half": {"drafts": points}}
    assert dict(draft_figures(parts)) == {"drafts.copy.ratio": 0.3, "drafts.finance.ratio": 0.9}


def test_products_with_codes_are_compared_with_plain_ones_of_their_shape() -> None:
    def took(kernel: str, work: str, seconds: float) -> dict[str, Any]:
        return {"kernel": kernel, "work": work, "median_s": seconds}

    speeds = [
        took("torch_mm", "1 rows, 8 x 4, plain", 4.0),
        took("torch_mm", "1 rows, 4 x 4, plain", 1.0),
        took("torch_mm", "2048 rows, 8 x 4, plain", 3.0),
        took("dequantised_gemm", "1 rows, 8 x 4, int8", 1.0),
        took("dequantised_gemv", "1 rows, 4 x 4, int8", 1.0),
        took("fp8_gemm", "2048 rows, 8 x 4, fp8 by fp8", 2.0),
        took("grouped_gemm", "8 rows, 2 experts of 8 x 4, plain", 4.0),
        took("grouped_dequantised_gemm", "8 rows, 2 experts of 8 x 4, int4 in groups", 2.0),
        took("paged_decode", "1 x 1024 tokens", 1.0),
        {"kernel": "fp8_gemm", "work": "2048 rows, 4 x 4, fp8 by fp8", "error": "no room"},
    ]
    figures = product_figures(speeds)
    assert figures == {
        "products.int8.1 rows.times_plain": 2.0,
        "products.fp8 by fp8.2048 rows.times_plain": 1.5,
        "experts.int4 in groups.8 rows.times_plain": 2.0,
    }
    asked = {target.name for target in TARGETS}
    assert figures.keys() <= asked


@pytest.mark.slow
def test_a_speed_part_gives_every_figure_that_targets_ask_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(gpu, "kernels_part", lambda device: {"checks": []})
    (part,) = REHEARSAL.speed
    plan = GpuPlan("cpu", (), [replace(part, engine={"kernels": "torch", "threads": 1})])
    path = tmp_path / "gpu.json"
    found = check_gpu(plan, path)
    assert json.loads(path.read_text("utf-8")) == json.loads(json.dumps(found))
    assert failures(found) == []
    rows = found["parts"]["speed of micro"]["rows"]
    assert [len(row["samples"]) for row in rows.values()] == [1, 1, 1, 1]
    assert rows["siblings"]["kv_hit"] > 0.4
    assert rows["unshared"]["kv_hit"] == 0
    measured = {target["figure"] for target in found["targets"] if target["measured"]}
    assert {"one.decode_share_of_read_ceiling", "siblings.times_unshared"} <= measured


def test_a_part_that_fails_is_told_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(device: str) -> dict[str, Any]:
        raise EngineUnavailable("the driver is gone")

    monkeypatch.setattr(gpu, "kernels_part", broken)
    plan = GpuPlan("cpu", (), ())
    found = check_gpu(plan, tmp_path / "gpu.json")
    assert failures(found) == ["kernels: the driver is gone"]
    assert list(found["parts"]) == ["kernels", "parity"]


def test_parts_are_measured_one_at_a_time_into_one_file(tmp_path: Path) -> None:
    plan, path = GpuPlan("cpu", (), ()), tmp_path / "gpu.json"
    first = check_gpu(plan, path, ["parity"])
    assert list(first["parts"]) == ["parity"]
    kept = {**first, "parts": {"kernels": {"checks": []}}}
    found = check_gpu(plan, path, ["parity"], kept)
    assert set(found["parts"]) == {"parity", "kernels"}
    assert json.loads(path.read_text("utf-8"))["parts"] == found["parts"]
    with pytest.raises(UsageError, match="of another code"):
        check_gpu(plan, path, ["parity"], {**first, "code": "older"})
    with pytest.raises(UsageError, match="--parts speeds is not known"):
        check_gpu(plan, path, ["speeds"])


def test_what_is_wrong_is_named() -> None:
    parts = {
        "kernels": {"checks": [{"operation": "attend", "case": "one row", "right": False}]},
        "parity": {"shapes": {"micro": {"unlike": ["agentrt triton"]}, "other": {"unlike": []}}},
    }
    parts["speculation of micro"] = {"unlike": ["kernels=triton, speculate_tokens=7"]}
    assert failures({"parts": parts}) == [
        "kernel attend is wrong in one row",
        "parity of micro: agentrt triton say something else",
        "speculation of micro: kernels=triton, speculate_tokens=7 say something else",
    ]


def test_the_kernels_check_is_asked_for_as_its_own_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert command[-3:] == ["agentrt_kernels.check", "--device", "cuda"]
        return subprocess.CompletedProcess(command, 1, '{"wrong": 1, "checks": []}', "")

    monkeypatch.setattr(subprocess, "run", run)
    assert kernels_part("cuda")["wrong"] == 1


def test_a_target_that_was_not_measured_is_neither_met_nor_missed() -> None:
    least, most = GpuTarget("rate", 0.7), GpuTarget("idle", 0.02, at_most=True)
    assert least.judged({"rate": 0.8})["met"] is True
    assert least.judged({"rate": 0.6})["met"] is False
    assert most.judged({"idle": 0.01})["met"] is True
    assert most.judged({"idle": 0.5})["met"] is False
    assert most.judged({})["met"] is None
    assert len({target.name for target in TARGETS}) == len(TARGETS)


def test_idle_is_what_no_launch_covers() -> None:
    found = idleness([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 1.7)])
    assert (found.span_s, found.busy_s, found.launches) == (6.0, 4.0, 4)
    assert found.idle_share == pytest.approx(1 / 3)
    assert found.between_s == 0.0
    assert idleness([]).idle_share == 0.0


def test_gaps_that_no_host_is_behind_are_told_apart() -> None:
    found = idleness([(0.0, 1.0), (1.000003, 2.0), (2.5, 3.0)])
    assert found.between_s == pytest.approx(3e-6)
    assert found.span_s - found.busy_s == pytest.approx(0.500003)
