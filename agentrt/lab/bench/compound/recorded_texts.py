"""Recorded texts in a bench: what goes with them, and the outputs that our engines write."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agentrt.lab.arms.servers import OUR_SERVERS
from agentrt.lab.bench.compound.model import BenchModel
from agentrt.lab.bench.compound.open_arms import PLAIN, ArmsConfig
from agentrt.lab.bench.compound.plan import Round
from agentrt.lab.bench.compound.recorded_draw import RecordedDraw
from agentrt.lab.bench.compound.replay_table import write_replay
from agentrt.lab.bench.compound.run import is_ours
from agentrt.lab.bench.flags import CompoundFlags
from agentrt.lab.flags import names, require
from agentrt.lab.recorded.readers import RECORDS
from agentrt.lab.workloads.text import words_of

DRAWN, RECORDED = "drawn", "recorded"
_LIFE = "Give --scale life, with time=0.1 or the like"


def check_recorded(flags: CompoundFlags, shapes: Sequence[str]) -> None:
    """Check that recorded programs can be played.

    Raises:
        UsageError: An arm, a shape or a flag does not go with recorded texts.
    """
    others = ", ".join(name for name in shapes if name not in RECORDS)
    require(not others, f"{others}: no text is recorded", f"Give --shapes {','.join(RECORDS)}")
    arms = [name for name in names(flags.arms) if not is_ours(name)]
    strangers = ", ".join(name for name in arms if name.partition("+")[2] not in OUR_SERVERS)
    told = f"--texts recorded gives no text to the engine of {strangers}"
    require(not strangers, told, f"Give agentrt, {PLAIN}, asyncio+ours or asyncio+ours-drafts")
    require(flags.data is not None, "--texts recorded needs files", "Give --data their folder")
    require(flags.load == "one", "--texts recorded is no load", "Leave --load out")
    require(not flags.without, "--texts recorded is no ablation", f"Add {PLAIN} to --arms")


def recorded_draw(flags: CompoundFlags, model: BenchModel) -> RecordedDraw:
    """Recorded programs for a model.

    Raises:
        UsageError: The lengths are scaled.
    """
    assert flags.data is not None
    drawing, scale = model.drawing, model.drawing.scale
    whole = (scale.context, scale.output, scale.count) == (1, 1, 1)
    require(whole, f"--scale {flags.scale}: recorded lengths are not scaled", _LIFE)
    return RecordedDraw(
        flags.data,
        words_of(model.path / "tokenizer.json"),
        drawing.window_tokens,
        scale=scale,
        sizes=drawing.sizes,
        seed=drawing.seed,
    )


def sources_of(flags: CompoundFlags) -> str | dict[str, str]:
    """Where texts come from, for the result."""
    if flags.texts == DRAWN:
        return DRAWN
    return {shape: records.source for shape, records in RECORDS.items()}


def with_replay(config: ArmsConfig, rounds: Sequence[Round], stack: ExitStack) -> ArmsConfig:
    """The same arms, with the recorded outputs of all rounds for our engines."""
    folder = stack.enter_context(TemporaryDirectory())
    path = Path(folder) / "replay" / "outputs.jsonl"  # whose last two names are in the result
    programs = (line for name in config.names for one in rounds for line in one.lines(name))
    write_replay(path, config.served.model, programs)
    return replace(config, served=replace(config.served, replay=path))
