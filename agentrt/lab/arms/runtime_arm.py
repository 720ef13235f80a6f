"""Our arm: a runtime with its engine, as the product runs them, playing programs.

Run as `python -P -m agentrt.lab.arms.runtime_arm`; each line of standard input is a question,
each line of standard output its answer, as `arm` says.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from agentrt.analysis import NodeRecord, RunRecord, RunRecorder, split
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.errors import AgentrtError
from agentrt.base.gc_freeze import freeze_gc
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.lab.arms.replay import Play, program_of
from agentrt.lab.arms.score import ProgramScore, ScoredWait, score_of
from agentrt.lab.arms.wire import (
    CallTold,
    ProgramLine,
    ProgramTold,
    StepTold,
    WaitTold,
)
from agentrt.program import Gen
from agentrt.protocol.events import Event
from agentrt.protocol.step_output import Ledger, StepDone, StepRecord
from agentrt.runtime import RunOptions, Runtime
from agentrt.scheduler import Estimates


class PlayWatch:
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
        self._recorder = RunRecorder(self._over)

    def on_events(self, events: Sequence[Event]) -> None:
        """Take a batch of events."""
        for event in events:
            if isinstance(event, StepDone):
                if event.step is not None:
                    self._step(event.step)
                    self._going = {delta.request_id for delta in event.deltas}
                self._going.difference_update(end.request_id for end in event.ends)
        self._recorder.on_events(events)

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
        self.steps.append((took_s, *work, began_s, gap_s, step.waiting))

    def _over(self, record: RunRecord) -> None:
        self.records[record.run_id] = record


class OurClient:
    """Answers questions with a runtime of its own.

    Args:
        stack: Closes what `open` has opened.
    """

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._watch = PlayWatch()
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
        freeze_gc()
        capabilities = self._runtime.engines["default"].backend.capabilities
        return {"about": _plain(asdict(capabilities) if is_dataclass(capabilities) else {})}

    async def play(self, lines: list[ProgramLine]) -> dict[str, Any]:
        """Play programs, each from its arrival on."""
        scores = [score_of(line) for line in lines]
        left: dict[int, _Left] = {}
        began_at_s = time.monotonic()
        self._watch.begin(began_at_s)

        async def one(at: int) -> None:
            due_at_s = began_at_s + lines[at]["at_s"]
            await anyio.sleep(max(0.0, due_at_s - time.monotonic()))
            left[at] = await self._play(scores[at], began_at_s)

        async with anyio.create_task_group() as tasks:
            for at in range(len(lines)):
                tasks.start_soon(one, at)
        told = [_told(left[at], began_at_s) for at in range(len(lines))]
        return {"samples": told, "steps": list(self._watch.steps)}

    async def _play(self, score: ProgramScore, began_at_s: float) -> _Left:
        """Play one program now."""
        assert self._runtime is not None
        play = Play(score)
        run_id = self._run_id()
        options = RunOptions(
            run_id=run_id,
            tenant=score.line["tenant"],
            true_service_s=score.line.get("service_s", 0.0),
        )
        error = ""
        try:
            runtime = self._runtime.with_options(options)
            await runtime.run(program_of(score.line["shape"]), play)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        ended_s = time.monotonic() - began_at_s
        return _left(play, self._watch.records.get(run_id), ended_s, error)

    def _run_id(self) -> RunId:
        self._serial += 1
        return RunId(f"{self._serial:016x}")


@dataclass(frozen=True, slots=True)
class _Left:
    """What a play leaves: nothing of its chats, which end with it as those of a program do.

    What is told of it is worked out when all have ended: others are being timed meanwhile.

    Attributes:
        score: What was played.
        record: Of its run.
        ended_s: When its result was there.
        error: What it failed with, or "".
        node_ids: By name, of what was declared.
        answers: By name of a call that has its value: its account and its text.
        given_up: Calls that a vote made needless.
        wasted_tokens: That those wrote.
    """

    score: ProgramScore
    record: RunRecord | None
    ended_s: float
    error: str
    node_ids: Mapping[str, NodeId]
    answers: Mapping[str, tuple[Ledger, str]]
    given_up: list[str]
    wasted_tokens: int


def _left(play: Play, record: RunRecord | None, ended_s: float, error: str) -> _Left:
    gens = {name: node for name, node in play.nodes.items() if isinstance(node, Gen)}
    return _Left(
        play.score,
        record,
        ended_s,
        error or ("" if record is not None else "its run left no record"),
        {name: node.id for name, node in play.nodes.items()},
        {
            name: (gen.meta.ledger, gen.text)
            for name, gen in gens.items()
            if gen.done and gen.error is None and name not in play.given_up
        },
        play.given_up,
        sum(gens[name].produced_tokens for name in play.given_up if name in gens),
    )


def _told(left: _Left, began_at_s: float) -> ProgramTold:
    line, record = left.score.line, left.record
    found: ProgramTold = {
        "name": line["name"],
        "arrived_s": line["at_s"],
        "ended_s": left.ended_s,
        "calls": [],
        "waits": [],
        "given_up": left.given_up,
        "error": left.error,
    }
    if record is None:
        return found
    for scored in left.score.nodes:
        if isinstance(scored, ScoredWait):
            found["waits"] += _wait(scored.name, left, record, began_at_s)
        else:
            found["calls"] += _call(scored.line["name"], left, record, began_at_s)
    found["split"] = split(record).parts() if not left.error else {}  # type: ignore[typeddict-item]
    found["wasted_tokens"] = left.wasted_tokens
    return found


def _call(name: str, left: _Left, record: RunRecord, began_at_s: float) -> list[CallTold]:
    node = _node(name, left, record)
    if name not in left.answers or node is None or node.finished is None:
        return []
    ledger, text = left.answers[name]
    return [
        {
            "name": name,
            "began_s": node.declared.at_s - began_at_s,
            "first_s": ledger.first_token_at_s - began_at_s,
            "ended_s": node.finished.at_s - began_at_s,
            "prompt_tokens": ledger.prompt_tokens,
            "cached_tokens": ledger.cached_tokens,
            "output_tokens": ledger.output_tokens,
            "output": text,
            "held_s": sum(sent.held_s for sent in node.sent),
        }
    ]


def _wait(name: str, left: _Left, record: RunRecord, began_at_s: float) -> list[WaitTold]:
    node = _node(name, left, record)
    if node is None or not node.attempts or node.attempts[-1].ended_at_s is None:
        return []
    began, ended = node.attempts[0].started_at_s, node.attempts[-1].ended_at_s
    return [{"name": name, "began_s": began - began_at_s, "ended_s": ended - began_at_s}]


def _node(name: str, left: _Left, record: RunRecord) -> NodeRecord | None:
    node_id = left.node_ids.get(name)
    return record.nodes.get(node_id) if node_id is not None else None


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
