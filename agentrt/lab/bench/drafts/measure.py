"""Rounds of a point: both arms write the same texts, or answer the same questions, in turns."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from agentrt import embedded
from agentrt.engine.process.child import environment
from agentrt.lab.arms.arm_process import Arm, ArmProcess
from agentrt.lab.arms.engine_settings import config_of
from agentrt.lab.bench.drafts.points import DraftsPoint, pages_for_rounds
from agentrt.lab.bench.drafts.result import OFF, ON, DraftsSample, PointPairs
from agentrt.lab.bench.drafts.texts import questions_of, texts_of
from agentrt.lab.bench.flags import DraftsFlags
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.checkpoints.weights import first_whole_word_id
from agentrt.lab.errors import BenchFailed
from agentrt.lab.progress import WorkPace, log
from agentrt.lab.quiet_machine import group_cpu_s

_SETTINGS = {OFF: "off", ON: "auto"}


def measure(points: Sequence[DraftsPoint], flags: DraftsFlags) -> Iterator[PointPairs]:
    """Measure all points, each given as soon as it is measured.

    Raises:
        BenchFailed: An arm failed, or drafts changed an output.
    """
    pace = WorkPace("rounds", len(points) * (1 + flags.counted))
    for point in points:
        log(f"measuring {point.name}")
        with ExitStack() as stack:
            arms = {
                name: stack.enter_context(closing(ArmProcess(arm_of(point, flags, name))))
                for name in (OFF, ON)  # the second computes with the threads of the first
            }
            yield _take_turns(arms, point, flags, pace)


def _take_turns(
    arms: Mapping[str, ArmProcess], point: DraftsPoint, flags: DraftsFlags, pace: WorkPace
) -> PointPairs:
    """Each arm once a round, in an order that turns round each time; the first round warms up."""
    samples: dict[str, list[DraftsSample]] = {name: [] for name in arms}
    for number in range(1 + flags.counted):
        question = _question(point, flags, number)
        names = (OFF, ON) if number % 2 else (ON, OFF)
        found = {name: _sample(arms[name], question) for name in names}
        pace.done()
        if found[OFF].output_hash != found[ON].output_hash:
            raise BenchFailed(
                f"drafts changed an output of {point.name}",
                hint="Compute in float32: other dtypes round a row by the size of its batch",
            )
        if number > 0:
            for name, sample in found.items():
                samples[name].append(sample)
    return PointPairs(point=point, off=samples[OFF], on=samples[ON])


def _sample(arm: ArmProcess, question: Mapping[str, Any]) -> DraftsSample:
    before_s = group_cpu_s(arm.groups)
    answer = arm.ask(**question)
    return DraftsSample(**answer, cpu_s=group_cpu_s(arm.groups) - before_s)


def _question(point: DraftsPoint, flags: DraftsFlags, number: int) -> dict[str, Any]:
    """The question of a round, for both arms."""
    if point.text is None:
        asked = questions_of((number + 1) * point.batch)[number * point.batch :]
        return {"do": "ask", "questions": asked}
    vocabulary = shape_named(point.shape).vocabulary
    texts = texts_of(
        point.text,
        words=range(first_whole_word_id(vocabulary), vocabulary),
        batch=point.batch,
        prompt_tokens=flags.prompt,
        output_tokens=flags.new,
        round_number=number,
    )
    return {"do": "replay", "prompts": texts.prompts, "outputs": texts.outputs}


def arm_of(point: DraftsPoint, flags: DraftsFlags, name: str) -> Arm:
    """One arm of a point, by its name."""
    engine: dict[str, Any] = {
        "dtype": point.dtype,
        "threads": flags.threads,
        "device": flags.device,
        "kernels": flags.kernels,
        "speculate_tokens": _SETTINGS[name],
    }
    if name == ON and flags.draft_model is not None:
        engine["draft_model"] = str(flags.draft_model.resolve())
    if point.text is None:
        model = Path(embedded.path())
        module = "finance_arm"
        settings: dict[str, Any] = {
            "engine": {**engine, "model_path": str(model)},
            "programs": str(flags.programs.resolve()),
        }
    else:
        model = checkpoint(shape_named(point.shape))
        engine["kv_pages"] = pages_for_rounds(point.batch, flags.prompt + flags.new)
        module = "recorded_arm"
        settings = {**engine, "model_path": str(model)}
        settings["known_threads"] = name == ON
    config = config_of({**engine, "model_path": str(model)})
    return Arm(
        "agentrt",
        _SETTINGS[name],
        command=(sys.executable, "-P", "-m", f"agentrt.lab.arms.{module}"),
        settings=settings,
        env=environment(config, os.environ),
    )
