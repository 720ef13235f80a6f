"""Speculation on a GPU: drafts of texts and of draft models change no token, and what they gain.

The tokens of each way to compute are those without drafts, in float32, at each temperature. Drafts
come from the call site's first round, from a draft model that is the target itself and so always
right, and from one of other weights, which is nearly always wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentrt.lab.arms.arm_process import ArmProcess
from agentrt.lab.arms.drafted_tokens import hash_of
from agentrt.lab.bench.drafts.measure import measure
from agentrt.lab.bench.drafts.points import points_of
from agentrt.lab.bench.engine.points import SweepPoint, prompts_of
from agentrt.lab.bench.engine.variants import our_arm
from agentrt.lab.bench.flags import DraftsFlags
from agentrt.lab.bench.gpu_plan import PROCESSES
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.progress import log

Json = dict[str, Any]
TEMPERATURES = 0.0, 0.8
DRAFT_TOKENS = 1, 3, 7
"""Drafts of one, three and seven tokens: rows of two, four and eight, as graphs are captured."""

_POINT = SweepPoint(3, 300, 40, 280, "float32")
"""Contexts behind which a draft's rows share their prefix."""

_WAYS_ON: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "cuda": (
        {"kernels": "triton", "overlap": "on", "graphs": "auto"},
        {"kernels": "triton", "overlap": "off", "graphs": "auto"},
        {"kernels": "triton", "overlap": "off", "graphs": "off"},
    ),
    "cpu": ({"kernels": "auto", "overlap": "off"}, {"kernels": "reference", "overlap": "on"}),
}


def speculation_part(shape_name: str, device: str) -> Json:
    """Tokens of a shape with all kinds of drafts, against those without any."""
    model = checkpoint(shape_named(shape_name))
    kinds = [{"speculate_tokens": "off"}, *_kinds_of_drafts(shape_name, model)]
    ways: list[Json] = [{**way, **drafts} for way in _WAYS_ON[device] for drafts in kinds]
    unlike: list[str] = []
    outputs: Json = {}
    accepted, rejected = Counter[str](), Counter[str]()
    with ThreadPoolExecutor(PROCESSES[device]) as pool:
        found = pool.map(lambda way: _told(shape_name, model, {**way, "device": device}), ways)
        for way, (told, counts) in zip(ways, found, strict=True):
            shown = ", ".join(f"{name}={Path(str(value)).name}" for name, value in way.items())
            log(f"{shape_name}: {shown}")
            outputs[shown] = told
            if told != next(iter(outputs.values())):
                unlike.append(shown)
            accepted.update(counts["accepted"])
            rejected.update(counts["rejected"])
    return {
        "outputs": outputs,
        "unlike": unlike,
        "accepted": dict(accepted),
        "rejected": dict(rejected),
    }


def drafts_part(flags: DraftsFlags) -> Json:
    """Time a token with drafts by that without, at each point of a bench of drafts."""
    found: Json = {}
    for pairs in measure(points_of(flags), flags):
        found[pairs.point.name] = {**asdict(pairs.point), "figures": pairs.figures}
    return {"drafts": found}


def draft_figures(parts: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Ratios of one sequence by kind of text, for the targets."""
    for part in parts.values():
        for point in part.get("drafts", {}).values():
            if point["batch"] == 1:
                name = point["text"] or "finance"
                yield f"drafts.{name}.ratio", point["figures"]["ratio"]["value"]


def _kinds_of_drafts(shape_name: str, model: Path) -> Iterator[Json]:
    other = checkpoint(shape_named(shape_name), seed=1)
    for tokens in DRAFT_TOKENS:
        yield {"speculate_tokens": tokens}
    yield {"speculate_tokens": "auto"}
    for draft_model in (model, other):
        yield {"speculate_tokens": DRAFT_TOKENS[-1], "draft_model": str(draft_model)}


def _told(shape_name: str, model: Path, settings: Mapping[str, Any]) -> tuple[Json, Json]:
    """Hashes of two rounds at each temperature, and the drafts of all; the second may draft."""
    arm = our_arm([_POINT], model, settings)
    prompts = prompts_of(_POINT, shape_named(shape_name).vocabulary, 0)
    hashes: Json = {}
    accepted, rejected = Counter[str](), Counter[str]()
    with closing(ArmProcess(arm)) as opened:
        for temperature in TEMPERATURES:
            for number in (1, 2):
                answer = opened.ask(
                    "round",
                    prompts=prompts,
                    new_tokens=_POINT.new_tokens,
                    shared=_POINT.shared_tokens,
                    ignore_eos=True,
                    temperature=temperature,
                )
                hashes[f"{temperature:g}, round {number}"] = hash_of(answer["outputs"])
                accepted.update(answer["accepted"])
                rejected.update(answer["rejected"])
    return hashes, {"accepted": accepted, "rejected": rejected}
