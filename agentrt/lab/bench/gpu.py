"""Every check that wants a GPU, one after the other, into one file.

A part that fails is told in the file and the rest goes on: a lent machine is not asked twice. The
file is written after each part, so that what was found stays found.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from agentrt.analysis.model_work import decode_work
from agentrt.base.errors import AgentrtError, EngineUnavailable
from agentrt.engine.process.hardware import gpu_info
from agentrt.lab.arms.peer_files import PeerFiles, peers_root
from agentrt.lab.bench.engine.open_arms import OpenArm, OpenArms
from agentrt.lab.bench.engine.points import SweepPoint, prompts_of
from agentrt.lab.bench.engine.result import ArmResult, RowResult, figures, machine
from agentrt.lab.bench.engine.variants import Arm, our_arm, peer_arms
from agentrt.lab.bench.gpu_plan import TARGETS, GpuPlan, SpeedPart
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.errors import BenchFailed

SCHEMA = "agentrt.bench.gpu/1"
_KERNELS_S = 240.0
_PARITY_ROW = SweepPoint(3, 70, 12, 32, "float32")
_OURS_ON = {
    "cuda": (
        {"kernels": "triton", "overlap": "on", "graphs": "auto"},
        {"kernels": "triton", "overlap": "on", "graphs": "off"},
        {"kernels": "triton", "overlap": "off", "graphs": "off"},
        {"kernels": "reference", "overlap": "off", "graphs": "off"},
    ),
    "cpu": ({"kernels": "auto", "overlap": "on"}, {"kernels": "reference", "overlap": "off"}),
}

Tell = Callable[[str], None]
Facts = dict[str, Any]


def check_gpu(plan: GpuPlan, path: Path, *, command: Sequence[str], tell: Tell) -> Facts:
    """All parts of a plan; the file's content.

    Raises:
        EngineUnavailable: There is no GPU here.
    """
    gpu = gpu_info()
    if plan.device == "cuda" and not gpu["count"]:
        raise EngineUnavailable(
            f"no GPU is here: {gpu['reason']}",
            hint="Run this on a machine with a CUDA device; --rehearse tries the same code here",
        )
    began_s = monotonic()
    found: Facts = {
        "schema": SCHEMA,
        "command": list(command),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine() | {"gpu": gpu},
        "parts": {},
    }
    parts: dict[str, Callable[[], Facts]] = {
        "kernels": lambda: kernels_part(plan.device),
        "parity": lambda: parity_part(plan, tell),
        **{
            f"speed of {part.shape}": lambda part=part: speed_part(part, plan.device, tell)  # type: ignore[misc]
            for part in plan.speed
        },
    }
    for name, measure in parts.items():
        tell(f"{name} ({monotonic() - began_s:.0f} s gone)")
        found["parts"][name] = told = _guarded(measure)
        if "error" in told:
            tell(f"{name} failed: {told['error']}")
        found["targets"] = [target.judged(_figures(found["parts"])) for target in TARGETS]
        found["seconds"] = monotonic() - began_s
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return found


def failures(found: Mapping[str, Any]) -> list[str]:
    """What is wrong, in words; a target that was not met is no failure of correctness."""
    parts = found["parts"]
    wrong = [f"{name}: {told['error']}" for name, told in parts.items() if "error" in told]
    wrong += [
        f"kernel {check['operation']} is wrong in {check['case']}"
        for check in parts.get("kernels", {}).get("checks", ())
        if not check["right"]
    ]
    wrong += [
        f"parity of {shape}: {' and '.join(told['unlike'])} say something else"
        for shape, told in parts.get("parity", {}).get("shapes", {}).items()
        if told["unlike"]
    ]
    return wrong


def kernels_part(device: str) -> Facts:
    """What the kernels' own check says, in a process of its own."""
    command = [sys.executable, "-P", "-m", "agentrt_kernels.check", "--device", device]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_KERNELS_S, check=False)
    if not done.stdout.startswith("{"):
        lines = done.stderr.strip().splitlines()
        raise BenchFailed(f"the kernels' check ended with {done.returncode}: {lines[-1:]}")
    told: Facts = json.loads(done.stdout)
    return told


def parity_part(plan: GpuPlan, tell: Tell) -> Facts:
    """Greedy tokens in fp32 of every way to compute a model, transformers' first."""
    found: Facts = {}
    for name in plan.parity:
        shape = shape_named(name)
        files = PeerFiles(peers_root(), checkpoint(shape, tell=tell))
        arms: list[Arm] = peer_arms("hf", _PARITY_ROW, shape, files, device=plan.device, cores=1)
        for settings in _OURS_ON[plan.device]:
            arm = our_arm([_PARITY_ROW], files.checkpoint, {**settings, "device": plan.device})
            arms.append(
                arm.called(", ".join(f"{name}={value}" for name, value in settings.items()))
            )
        told: Facts = {}
        for arm in arms:
            tell(f"{name}: {arm.name}")
            opened = OpenArm(arm)
            try:
                told[arm.name] = opened.round(_PARITY_ROW, shape.vocabulary, 0).output_hash
            finally:
                opened.close()
        expected = told[arms[0].name]
        unlike = [arm for arm, output in told.items() if output != expected]
        found[name] = {"outputs": told, "unlike": unlike}
    return {"shapes": found}


def speed_part(part: SpeedPart, device: str, tell: Tell) -> Facts:
    """Rows of a shape, and how idle the device is in some."""
    shape = shape_named(part.shape)
    model = checkpoint(shape, with_weights=False, tell=tell)
    fields = {**part.engine, "device": device, "random_weights": True}
    arm = our_arm(list(part.rows.values()), model, fields)
    arms = OpenArms(tell)
    rows: Facts = {}
    try:
        opened = arms.get(arm)
        question = {"do": "ceilings", "device": device, "dtype": "bfloat16"}
        ceilings = opened.ask(question)
        for name, row in part.rows.items():
            tell(f"{part.shape}: {name}, {row.name}")
            first, last = (0, 0) if name in part.once else (1, part.repeats)
            samples = [opened.round(row, shape.vocabulary, number) for number in range(last + 1)][
                first:
            ]
            result = RowResult(row, [ArmResult(arm, opened.about, samples)], {}, [ceilings])
            rows[name] = {
                "row": row.name,
                "samples": [sample.to_json() for sample in samples],
                **figures(shape, result, result.ours),
                "decode_share_of_read_ceiling": _read_share(part.shape, row, result),
            }
            if name in part.idle:
                prompts = prompts_of(row, shape.vocabulary, 1 + part.repeats)
                rows[name]["idle"] = opened.ask({"do": "idle", "prompts": prompts})
    except AgentrtError as error:
        return {"error": error.message, "rows": rows, "about": dict(arm.settings)}
    finally:
        arms.close()
    return {"rows": rows, "about": opened.about, "ceilings": ceilings}


def _read_share(shape: str, row: SweepPoint, result: RowResult) -> float:
    work = decode_work(
        shape_named(shape),
        row.dtype,
        batch=row.batch,
        history_tokens=row.prompt_tokens + row.new_tokens / 2,
        shared_tokens=row.shared_tokens,
    )
    return work.bytes / result.ceiling("read_bytes_s") / result.ours.step_s


def _figures(parts: Mapping[str, Any]) -> dict[str, float]:
    """What targets are held against, by name."""
    found: dict[str, float] = {}
    for told in parts.values():
        for name, row in told.get("rows", {}).items():
            found[f"{name}.decode_share_of_read_ceiling"] = row["decode_share_of_read_ceiling"]
            found[f"{name}.decode_step_ms"] = row["decode_step_ms"]
            if "idle" in row:
                found[f"{name}.idle_share"] = row["idle"]["idle_share"]
    if {"siblings.decode_step_ms", "unshared.decode_step_ms"} <= found.keys():
        found["siblings.times_unshared"] = (
            found["unshared.decode_step_ms"] / found["siblings.decode_step_ms"]
        )
    speeds = parts.get("kernels", {}).get("speeds", ())
    for figure, kernel, share in (
        ("kernels.decode_of_read_ceiling", "paged_decode", "of_read_ceiling"),
        ("kernels.extend_of_matmul_ceiling", "paged_extend", "of_matmul_ceiling"),
    ):
        shares = [one[share] for one in speeds if one["kernel"] == kernel and share in one]
        if shares:
            found[figure] = max(shares)
    return found


def _guarded(measure: Callable[[], Facts]) -> Facts:
    try:
        return measure()
    except AgentrtError as error:
        return {"error": error.message}
    except Exception as error:  # a part's failure is a fact; the others are still wanted
        return {"error": f"{type(error).__name__}: {error}"}
