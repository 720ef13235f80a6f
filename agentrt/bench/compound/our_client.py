"""Our arm: a runtime with its engine, as the product runs them, playing programs.

Run as `python -P -m agentrt.bench.compound.our_client`; each line of standard input is a question,
each line of standard output its answer, as `arm` says.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from agentrt.app import open_runtime
from agentrt.backend import StepDone
from agentrt.bench.compound.replay import Play, program_of
from agentrt.bench.compound.score import ScoredCall, ScoredWait, score_of
from agentrt.bench.compound.wire import (
    CallTold,
    ProgramLine,
    ProgramTold,
    StepTold,
    WaitTold,
)
from agentrt.config import EngineConfig, SchedulerConfig
from agentrt.errors import AgentrtError
from agentrt.events import Event
from agentrt.graph import Recorder, RunRecord, split
from agentrt.heap import settle_heap
from agentrt.ids import RequestId, RunId
from agentrt.program import Gen
from agentrt.runtime import RunOptions, Runtime
from agentrt.scheduler import Estimates
from agentrt.step import StepRecord


class Watch:
    """What the runtime tells while programs are played.

    Attributes:
        steps: Of the engine.
        records: Of the runs that are over.
    """

    def __init__(self) -> None:
        self.steps: list[StepTold] = []
        self.records: dict[RunId, RunRecord] = {}
        self._began_at_s = self._ended_at_s = 0.0
        self._going: set[RequestId] = set()
        self._recorder = Recorder(self._over)

    def see(self, events: Sequence[Event]) -> None:
        """Take a batch of events."""
        for event in events:
            if isinstance(event, StepDone):
                if event.step is not None:
                    self._step(event.step)
                    self._going = {delta.request_id for delta in event.deltas}
                self._going.difference_update(end.request_id for end in event.ends)
        self._recorder.see(events)

    def begin(self, at_s: float) -> None:
        """Forget what has been seen: a play begins."""
        self._began_at_s = at_s
        self.steps.clear()
        self.records.clear()
        self._going.clear()

    def _step(self, step: StepRecord) -> None:
        """Where one goes on that got a token in the step before, the engine was never idle."""
        took_s = step.ended_at_s - step.started_at_s
        goes_on = not self._going.isdisjoint(step.requests)
        gap_s = step.started_at_s - self._ended_at_s if goes_on else None
        self._ended_at_s = step.ended_at_s
        began_s = step.started_at_s - self._began_at_s
        work = (step.prefill_tokens, step.decode_tokens, step.kv_tokens)
        self.steps.append((took_s, *work, began_s, gap_s))

    def _over(self, record: RunRecord) -> None:
        self.records[record.run_id] = record


class OurClient:
    """Answers questions with a runtime of its own.

    Args:
        stack: Closes what `open` has opened.
    """

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._watch = Watch()
        self._runtime: Runtime | None = None
        self._serial = 0

    async def open(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Start the engine; settings hold fields of `EngineConfig` and of `SchedulerConfig`."""
        engine = settings["engine"]
        config = EngineConfig(**{**engine, "model_path": Path(engine["model_path"])})
        self._runtime = await self._stack.enter_async_context(
            open_runtime(
                engine=config,
                observers=[self._watch],
                scheduler=SchedulerConfig(**settings["scheduler"]),
                estimates=Estimates(),  # of this run alone, not of what the user ran before
            )
        )
        settle_heap()
        capabilities = self._runtime.engines["default"].backend.capabilities
        return {"about": _plain(asdict(capabilities) if is_dataclass(capabilities) else {})}

    async def play(self, lines: list[ProgramLine]) -> dict[str, Any]:
        """Play programs, each from its arrival on."""
        samples: dict[int, ProgramTold] = {}
        began_at_s = time.monotonic()
        self._watch.begin(began_at_s)

        async def one(at: int) -> None:
            line = lines[at]
            await anyio.sleep(max(0.0, began_at_s + line["at_s"] - time.monotonic()))
            # Nothing holds the play once it is told: its chats are gone, as a program's would be.
            samples[at] = await self._play(line, began_at_s)

        async with anyio.create_task_group() as tasks:
            for at in range(len(lines)):
                tasks.start_soon(one, at)
        told = [samples[at] for at in range(len(lines))]
        return {"samples": told, "steps": list(self._watch.steps)}

    async def _play(self, line: ProgramLine, began_at_s: float) -> ProgramTold:
        """Play one program now."""
        assert self._runtime is not None
        play = Play(score_of(line))
        run_id = self._run_id()
        options = RunOptions(
            run_id=run_id,
            tenant=line["tenant"],
            true_service_s=line.get("service_s", 0.0),
        )
        error = ""
        try:
            runtime = self._runtime.with_options(options)
            await runtime.run(program_of(line["shape"]), play)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        ended_s = time.monotonic() - began_at_s
        return _told(play, self._watch.records.get(run_id), began_at_s, ended_s, error)

    def _run_id(self) -> RunId:
        self._serial += 1
        return RunId(f"{self._serial:016x}")


def _told(
    play: Play, record: RunRecord | None, began_at_s: float, ended_s: float, error: str
) -> ProgramTold:
    score = play.score
    found: ProgramTold = {
        "name": score.line["name"],
        "arrived_s": score.line["at_s"],
        "ended_s": ended_s,
        "calls": [],
        "waits": [],
        "given_up": play.given_up,
        "error": error or ("" if record is not None else "its run left no record"),
    }
    if record is None:
        return found
    for scored in score.nodes:
        if isinstance(scored, ScoredWait):
            found["waits"] += _wait(play, scored, record, began_at_s)
        elif scored.line["name"] not in play.given_up:
            found["calls"] += _call(play, scored, record, began_at_s)
    found["split"] = split(record).parts() if not error else {}  # type: ignore[typeddict-item]
    found["wasted_tokens"] = sum(_produced(play, name) for name in play.given_up)
    return found


def _call(play: Play, scored: ScoredCall, record: RunRecord, began_at_s: float) -> list[CallTold]:
    name = scored.line["name"]
    gen = play.nodes.get(name)
    node = record.nodes.get(gen.id) if gen is not None else None
    if not isinstance(gen, Gen) or node is None or node.finished is None or gen.error is not None:
        return []
    ledger = gen.meta.ledger
    return [
        {
            "name": name,
            "began_s": node.declared.at_s - began_at_s,
            "first_s": ledger.first_token_at_s - began_at_s,
            "ended_s": node.finished.at_s - began_at_s,
            "prompt_tokens": ledger.prompt_tokens,
            "cached_tokens": ledger.cached_tokens,
            "output_tokens": ledger.output_tokens,
            "output": gen.text,
            "held_s": sum(sent.held_s for sent in node.sent),
        }
    ]


def _wait(play: Play, scored: ScoredWait, record: RunRecord, began_at_s: float) -> list[WaitTold]:
    declared = play.nodes.get(scored.name)
    node = record.nodes.get(declared.id) if declared is not None else None
    if node is None or not node.attempts or node.attempts[-1].ended_at_s is None:
        return []
    began, ended = node.attempts[0].started_at_s, node.attempts[-1].ended_at_s
    return [{"name": scored.name, "began_s": began - began_at_s, "ended_s": ended - began_at_s}]


def _produced(play: Play, name: str) -> int:
    gen = play.nodes[name]
    return gen.produced_tokens if isinstance(gen, Gen) else 0


def _plain(value: Any) -> Any:
    """Only what JSON holds."""
    return json.loads(json.dumps(value, default=str))


async def _answer(client: OurClient, question: dict[str, Any]) -> dict[str, Any]:
    match question["do"]:
        case "open":
            return await client.open(question["settings"])
        case "play":
            return await client.play(question["programs"])
        case other:
            return {"error": f"no question is called {other!r}"}


async def _answer_all() -> None:
    async with AsyncExitStack() as stack:
        client = OurClient(stack)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            try:
                told = await _answer(client, json.loads(line))
            except AgentrtError as error:
                told = {"error": f"{error.message} ({error.hint})"}
            except Exception as error:
                told = {"error": f"{type(error).__name__}: {error}"}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


def main() -> None:
    """Answer until standard input ends."""
    with contextlib.suppress(asyncio.CancelledError):
        anyio.run(_answer_all)


if __name__ == "__main__":
    main()
