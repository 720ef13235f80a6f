"""`agentrt bench gpu`: every check that needs a GPU, one after the other, into one file.

A part that fails is recorded in the file and the rest goes on. The file is written after each part,
so that results are kept if a later part ends the process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any

import typer

from agentrt.analysis.model_shape import DTYPE_BYTES, ModelShape
from agentrt.base.errors import AgentrtError, EngineUnavailable
from agentrt.base.pace import pace_text
from agentrt.engine.process.hardware import gpu_info
from agentrt.lab.arms.arm_process import Arm, ArmProcess
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.bench.drafts.points import EMBEDDED
from agentrt.lab.bench.engine.points import SweepPoint, prompts_of
from agentrt.lab.bench.engine.result import ArmResult, PointResult
from agentrt.lab.bench.engine.sample import measure_round
from agentrt.lab.bench.engine.variants import our_arm, peer_arms
from agentrt.lab.bench.flags import GPU_FILE, GpuFlags
from agentrt.lab.bench.gpu_plan import HOPPER, PROCESSES, REHEARSAL, TARGETS, GpuPlan, SpeedPart
from agentrt.lab.bench.gpu_products import product_figures
from agentrt.lab.bench.gpu_speculation import draft_figures, drafts_part, speculation_part
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.code_version import code_version
from agentrt.lab.errors import BenchFailed
from agentrt.lab.flags import check_known, names, require
from agentrt.lab.progress import log
from agentrt.lab.result_file import header, machine, write_json

KINDS = ("kernels", "parity", "speculation", "speed", "drafts")
"""Kinds of parts, by the first word of their names, in the order in which they run."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_KERNELS_S = 540.0
_PARITY_POINT = SweepPoint(3, 70, 12, 32, "float32")
_OURS_ON = {
    "cuda": (
        {"kernels": "triton", "overlap": "on", "graphs": "auto"},
        {"kernels": "triton", "overlap": "on", "graphs": "off"},
        {"kernels": "triton", "overlap": "off", "graphs": "off"},
        {"kernels": "reference", "overlap": "off", "graphs": "off"},
    ),
    "cpu": ({"kernels": "auto", "overlap": "on"}, {"kernels": "reference", "overlap": "off"}),
}
_BOUNDED_ON = {
    "cuda": ({"kernels": "triton", "overlap": "on"}, {"kernels": "triton", "overlap": "off"}),
    "cpu": ({"kernels": "auto", "overlap": "on"}, {"kernels": "reference", "overlap": "off"}),
}
"""Further ways for models with experts, whose memory is bounded."""
_CODES = {"int8": 1.5 / 4, "int4": 1.5 / 8}
"""Bytes of an expert in codes, with its scales and room to spare, by those in fp32."""

Json = dict[str, Any]


def run_gpu_bench(flags: GpuFlags) -> int:
    """Check and print which targets were met; returns 1 if anything is wrong."""
    plan, kinds = REHEARSAL if flags.rehearse else HOPPER, names(flags.parts)
    check_known("--parts", kinds, KINDS)
    kept: Json = {}
    if flags.resume and flags.json_path.exists():
        kept = GPU_FILE.read(flags.json_path, _whole)
    for one in plan.drafts if "drafts" in kinds else ():
        program = one.programs / "finance.py"
        require(
            one.shape != EMBEDDED or program.is_file(),
            f"there is no {program} for the part drafts",
            "Begin in the folder of the repository, or leave drafts out of --parts",
        )
    found = check_gpu(plan, flags.json_path, kinds, kept)
    for target in found["targets"]:
        typer.echo(json.dumps(target))
    wrong = failures(found)
    for line in wrong:
        log(line)
    return 1 if wrong else 0


def check_gpu(
    plan: GpuPlan, path: Path, kinds: Sequence[str] = KINDS, kept: Mapping[str, Any] = _NOTHING
) -> Json:
    """Run parts of a plan; returns the file's content.

    Args:
        plan: The plan.
        path: Path of the file.
        kinds: Kinds of the parts that run.
        kept: Content of a file whose other parts stay as they are.

    Raises:
        EngineUnavailable: There is no GPU here.
        UsageError: A kind is not known, or the file is of another GPU or of other code.
    """
    check_known("--parts", tuple(kinds), KINDS)
    gpu = gpu_info()
    if plan.device == "cuda" and not gpu["count"]:
        raise EngineUnavailable(
            f"no GPU is here: {gpu['reason']}",
            hint="Run this on a machine with a CUDA device; --rehearse tries the same code here",
        )
    began_s = monotonic()
    found: Json = {
        **header(GPU_FILE.schema),
        "code": code_version(),
        "machine": machine() | {"gpu": gpu},
        "parts": dict(kept.get("parts", {})),
    }
    for what, before, now in (
        ("code", kept.get("code"), found["code"]),
        ("GPU", kept.get("machine", {}).get("gpu"), gpu),
    ):
        require(not kept or before == now, f"{path} is of another {what}", "Leave out --resume")
    parts: dict[str, Callable[[], Json]] = {
        "kernels": partial(kernels_part, plan.device),
        "parity": partial(parity_part, plan),
        **{
            f"speculation of {shape}": partial(speculation_part, shape, plan.device)
            for shape in plan.speculation
        },
        **{f"speed of {part.shape}": partial(speed_part, part, plan.device) for part in plan.speed},
        **{
            f"drafts of {one.shape}, batch {one.batch}": partial(drafts_part, one)
            for one in plan.drafts
        },
    }
    chosen = {name: one for name, one in parts.items() if name.split()[0] in kinds}
    for number, (name, measure) in enumerate(chosen.items()):
        log(f"{name}; {pace_text(number, len(chosen), monotonic() - began_s, 'parts')}")
        found["parts"][name] = result = _guarded(measure)
        if "error" in result:
            log(f"{name} failed: {result['error']}")
        found["targets"] = [target.judged(_figures(found["parts"])) for target in TARGETS]
        found["seconds"] = monotonic() - began_s
        write_json(path, found)
    return found


def _whole(found: Json) -> Json:
    """A file whose parts have every figure of targets and every fault."""
    _figures(found["parts"])
    failures(found)
    found["machine"].get("gpu")
    return found


def failures(found: Mapping[str, Any]) -> list[str]:
    """Faults in words; a missed target is no fault."""
    parts = found["parts"]
    wrong = [f"{name}: {part['error']}" for name, part in parts.items() if "error" in part]
    wrong += [
        f"kernel {check['operation']} is wrong in {check['case']}"
        for check in parts.get("kernels", {}).get("checks", ())
        if not check["right"]
    ]
    wrong += [
        f"parity of {shape}: {' and '.join(outputs['unlike'])} say something else"
        for shape, outputs in parts.get("parity", {}).get("shapes", {}).items()
        if outputs["unlike"]
    ]
    wrong += [
        f"{name}: {' and '.join(part['unlike'])} say something else"
        for name, part in parts.items()
        if part.get("unlike")
    ]
    return wrong


def kernels_part(device: str) -> Json:
    """Run the kernels' own check in a process of its own."""
    command = [sys.executable, "-P", "-m", "agentrt_kernels.check", "--device", device]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_KERNELS_S, check=False)
    if not done.stdout.startswith("{"):
        lines = done.stderr.strip().splitlines()
        raise BenchFailed(f"the kernels' check ended with {done.returncode}: {lines[-1:]}")
    found: Json = json.loads(done.stdout)
    return found


def parity_part(plan: GpuPlan) -> Json:
    """Greedy tokens in fp32 of every way to compute a model.

    Those of plain weights are compared with transformers', those of experts in codes with ours with
    all experts in memory.
    """
    found: Json = {}
    for name in plan.parity:
        shape = shape_named(name)
        files = peer_files(checkpoint(shape))
        arms = peer_arms("hf", _PARITY_POINT, shape, files, device=plan.device, cores=1)
        ways = (*_OURS_ON[plan.device], *_bounded(shape, plan.device))
        arms += [_parity_arm(files.checkpoint, way, plan.device) for way in ways]
        found[name] = _compared(name, arms, shape.vocabulary, plan.device)
        for weights in _CODES if shape.experts > 1 else ():
            whole = _OURS_ON[plan.device][0]
            ways = (whole, *_bounded(shape, plan.device, weights))
            arms = [
                _parity_arm(files.checkpoint, {**way, "weights": weights}, plan.device)
                for way in ways
            ]
            of_codes = f"{name} in {weights}"
            found[of_codes] = _compared(of_codes, arms, shape.vocabulary, plan.device)
    return {"shapes": found}


def _parity_arm(model: Path, settings: Mapping[str, Any], device: str) -> Arm:
    arm = our_arm([_PARITY_POINT], model, {**settings, "device": device})
    return replace(arm, variant=", ".join(f"{name}={value}" for name, value in settings.items()))


def _compared(name: str, arms: Sequence[Arm], vocabulary: int, device: str) -> Json:
    """Outputs of arms by name, and the names of those that differ from the first."""
    log(f"{name}: {', '.join(arm.name for arm in arms)}")

    def told(arm: Arm) -> str:
        with closing(ArmProcess(arm)) as opened:
            return measure_round(opened, _PARITY_POINT, vocabulary, 0).output_hash

    with ThreadPoolExecutor(PROCESSES[device]) as pool:
        hashes = pool.map(told, arms)
        outputs = {arm.name: one for arm, one in zip(arms, hashes, strict=True)}
    expected = outputs[arms[0].name]
    return {"outputs": outputs, "unlike": [arm for arm in outputs if outputs[arm] != expected]}


def _bounded(shape: ModelShape, device: str, weights: str = "checkpoint") -> list[Json]:
    """Settings with memory for one expert of a model, and for half of them; [] without any."""
    if shape.experts < 2:
        return []
    expert = 3 * shape.hidden * shape.inner * DTYPE_BYTES[_PARITY_POINT.dtype]
    if weights != "checkpoint":
        expert = int(expert * _CODES[weights])
    return [
        {**settings, "expert_memory": str(count * expert)}
        for settings in _BOUNDED_ON[device]
        for count in (1, shape.layers * shape.experts // 2)
    ]


def speed_part(part: SpeedPart, device: str) -> Json:
    """Measure points of a shape, and how idle the device is at some of them."""
    shape = shape_named(part.shape)
    model = checkpoint(shape, with_weights=False)
    fields = {**part.engine, "device": device, "random_weights": True}
    arm = our_arm(list(part.points.values()), model, fields)
    points: Json = {}
    try:
        with closing(ArmProcess(arm)) as opened:
            ceilings = opened.ask("roofline", device=device, dtype="bfloat16")
            for name, point in part.points.items():
                log(f"{part.shape}: {name}, {point.name}")
                points[name] = _point(name, part, opened, ceilings)
    except AgentrtError as error:
        return {"error": error.message, "rows": points, "about": dict(arm.settings)}
    return {"rows": points, "about": opened.about, "ceilings": ceilings}


def _point(name: str, part: SpeedPart, opened: ArmProcess, ceilings: Json) -> Json:
    shape, point = shape_named(part.shape), part.points[name]
    first, last = (0, 0) if name in part.once else (1, part.repeats)
    samples = [measure_round(opened, point, shape.vocabulary, number) for number in range(last + 1)]
    ours = ArmResult(opened.arm, opened.about, samples[first:])
    result = PointResult(point, [ours], {}, [ceilings])
    least_s = point.decode_work(shape).bytes / result.ceiling("read_bytes_s")
    found: Json = {
        "row": point.name,
        "samples": [asdict(sample) for sample in ours.samples],
        **result.figures(shape, ours),
        "decode_share_of_read_ceiling": least_s / ours.step_s,
    }
    if name in part.idle:
        prompts = prompts_of(point, shape.vocabulary, 1 + part.repeats)
        found["idle"] = opened.ask("idle", prompts=prompts)
    return found


def _figures(parts: Mapping[str, Any]) -> dict[str, float]:
    """Figures that targets limit, by name."""
    found = dict(draft_figures(parts))
    for part in parts.values():
        for name, point in part.get("rows", {}).items():
            for figure in ("decode_share_of_read_ceiling", "decode_step_ms"):
                found[f"{name}.{figure}"] = point[figure]
            if "idle" in point:
                idle = point["idle"]
                found[f"{name}.idle_share"] = idle["idle_share"]
                waiting_s = idle["span_s"] - idle["busy_s"] - idle["between_s"]
                found[f"{name}.waiting_share"] = waiting_s / idle["span_s"]
    shared, unshared = "siblings.decode_step_ms", "unshared.decode_step_ms"
    if {shared, unshared} <= found.keys():
        found["siblings.times_unshared"] = found[unshared] / found[shared]
    speeds = parts.get("kernels", {}).get("speeds", ())
    found |= product_figures(speeds)
    for figure, kernel, share in (
        ("kernels.decode_of_read_ceiling", "paged_decode", "of_read_ceiling"),
        ("kernels.extend_of_matmul_ceiling", "paged_extend", "of_matmul_ceiling"),
    ):
        shares = [one[share] for one in speeds if one["kernel"] == kernel and share in one]
        if shares:
            found[figure] = max(shares)
    return found


def _guarded(measure: Callable[[], Json]) -> Json:
    try:
        return measure()
    except AgentrtError as error:
        return {"error": error.message}
    except Exception as error:  # a part's failure is a result; the others are still wanted
        return {"error": f"{type(error).__name__}: {error}"}
