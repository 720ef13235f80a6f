"""Our runtime as an arm: what it tells of steps, what it lets go, and lengths that it keeps."""

import gc
import weakref
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt import embedded
from agentrt.base.ids import RequestId
from agentrt.lab.arms import runtime_arm
from agentrt.lab.arms.replay import Play
from agentrt.lab.arms.wire import CallLine, ProgramSample
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import SHAPES
from agentrt.lab.workloads.text import KeySpeller, words_of
from agentrt.protocol.step_output import Delta, End, StepDone, StepRecord
from tests.lab.arms.made_programs import ASK, CHAIN, call, program


def test_gaps_are_told_where_the_engine_had_work() -> None:
    """One runs through three steps; after its end, and after a wait for a hole, no gap is known."""
    one, other = RequestId(1), RequestId(2)

    def done(at_s: float, rows: tuple[RequestId, ...], ends: tuple[RequestId, ...]) -> StepDone:
        record = StepRecord(0, at_s, at_s + 0.5, 0, len(rows), rows, 9)
        deltas = tuple(Delta(row, (7,), "x") for row in rows if row == one)
        return StepDone(record, deltas, tuple(End(end, "length") for end in ends))

    watch = runtime_arm.PlayObserver()
    watch.begin(0.75)
    watch.on_events([done(1.0, (one,), ()), done(1.75, (one, other), ())])
    watch.on_events([done(2.5, (one,), (one,)), done(9.0, (other,), ()), done(12.0, (other,), ())])
    assert [step[5] for step in watch.steps] == [None, 0.25, 0.25, None, None]
    assert watch.steps[:2] == [(0.5, 0, 1, 9, 0.25, None, 0), (0.5, 0, 2, 9, 1.0, 0.25, 0)]
    watch.on_events([done(13.0, (one,), ()), StepDone(None, (), (End(one, "cancelled"),))])
    watch.on_events([done(14.0, (one,), ())])
    watch.begin(15.0)
    watch.on_events([done(15.0, (one,), ())])
    assert watch.steps == [(0.5, 0, 1, 9, 0.0, None, 0)]


def test_an_ended_play_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its chats would stay alive, and the engine would never drop their hints."""
    plays: list[weakref.ref[Play]] = []
    alive: list[int] = []
    ended_play = runtime_arm.EndedPlay

    def counted(play: Play, *others: Any) -> Any:
        gc.collect()
        alive.append(sum(one() is not None for one in plays))
        plays.append(weakref.ref(play))
        return ended_play(play, *others)

    monkeypatch.setattr(runtime_arm, "EndedPlay", counted)
    longer = program("longer/0", [call("all", ASK, tokens=200)], ["all"])
    engine = {"model_path": str(embedded.path()), "dtype": "float32", "kv_pages": 256}

    async def play() -> list[ProgramSample]:
        async with AsyncExitStack() as stack:
            arm = runtime_arm.RuntimeArm(stack)
            await arm.open({"engine": engine, "scheduler": {}})
            samples: list[ProgramSample] = (await arm.play([longer, CHAIN]))["samples"]
            return samples

    samples = anyio.run(play)
    assert [(one["name"], one["error"]) for one in samples] == [("longer/0", ""), ("chain/0", "")]
    assert alive == [0, 0]


def test_a_form_of_life_size_is_written_in_as_many_tokens(tmp_path: Path) -> None:
    """If its forced words were not forced as tokens, a model of random weights would split them."""
    model = checkpoint(SHAPES["micro"], folder=tmp_path)
    spell = KeySpeller(words_of(model / "tokenizer.json"))
    held: CallLine = {**call("plan", ASK, tokens=180), "pattern": spell.pattern("plan", 180, 80)}
    engine = {"model_path": str(model), "dtype": "float32", "kv_pages": 64, "threads": 1}

    async def play() -> list[ProgramSample]:
        async with AsyncExitStack() as stack:
            arm = runtime_arm.RuntimeArm(stack)
            await arm.open({"engine": engine, "scheduler": {}})
            samples: list[ProgramSample] = (await arm.play([program("life/0", [held], ["plan"])]))[
                "samples"
            ]
            return samples

    ((said,),) = ([*one["calls"]] for one in anyio.run(play))
    assert said["output_tokens"] == 180
    assert said["forced_tokens"] >= 80
