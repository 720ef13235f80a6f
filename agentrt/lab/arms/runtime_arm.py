"""The process of our runtime's arm: a runtime with its engine, as the product runs them.

Run as `python -P -m agentrt.lab.arms.runtime_arm`; it answers `open` and `play`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, is_dataclass
from typing import Any

import anyio

from agentrt.analysis import NodeRecord, RunRecord, RunRecorder, split
from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.config import SchedulerConfig
from agentrt.base.gc_freeze import freeze_gc
from agentrt.base.ids import RequestId, RunId
from agentrt.engine.process.backend import EmbeddedBackend
from agentrt.lab.arms.answering import answer_lines
from agentrt.lab.arms.engine_settings import config_of
from agentrt.lab.arms.play_options import PlayOptions
from agentrt.lab.arms.program_arrivals import ProgramArrivals
from agentrt.lab.arms.replay import Play, program_of
from agentrt.lab.arms.replay_backend import ReplayBackend
from agentrt.lab.arms.wire import CallSample, ProgramLine, ProgramSample, WaitSample
from agentrt.lab.workloads.step_sample import StepSample
from agentrt.program import Gen
from agentrt.prompt import Codec
from agentrt.protocol.backend import Backend
from agentrt.protocol.events import Event
from agentrt.protocol.step_output import StepDone, StepRecord
from agentrt.runtime import RunOptions, Runtime
from agentrt.scheduler import Estimates

Json = dict[str, Any]


class PlayObserver:
    """Observer that keeps steps and run records while programs are played.

    Attributes:
        steps: Steps of the engine.
        records: Records of ended runs.
    """

    def __init__(self) -> None:
        self.steps: list[StepSample] = []
        self.records: dict[RunId, RunRecord] = {}
        self._began_at_s = self._ended_at_s = 0.0
        self._running: set[RequestId] = set()
        self._recorder = RunRecorder(self._over)

    def on_events(self, events: Sequence[Event]) -> None:
        """Take a batch of events."""
        for event in events:
            if isinstance(event, StepDone):
                if event.step is not None:
                    self._step(event.step)
                    self._running = {delta.request_id for delta in event.deltas}
                self._running.difference_update(end.request_id for end in event.ends)
        self._recorder.on_events(events)

    def begin(self, at_s: float) -> None:
        """Start a play and forget the one before."""
        self._began_at_s = at_s
        self.steps.clear()
        self.records.clear()
        self._running.clear()

    def _step(self, step: StepRecord) -> None:
        """The gap is known if a request runs on: the engine had work since the step before."""
        runs_on = not self._running.isdisjoint(step.requests)
        gap_s = step.started_at_s - self._ended_at_s if runs_on else None
        self._ended_at_s = step.ended_at_s
        self.steps.append(
            StepSample(
                step.ended_at_s - step.started_at_s,
                step.prefill_tokens,
                step.decode_tokens,
                step.kv_tokens,
                step.started_at_s - self._began_at_s,
                gap_s,
                step.waiting,
            )
        )

    def _over(self, record: RunRecord) -> None:
        self.records[record.run_id] = record


class RuntimeArm:
    """A runtime of its own, and the programs that it plays.

    Args:
        stack: Closes the runtime.
    """

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._observer = PlayObserver()
        self._runs = 0
        self._plays: dict[RunId, Play] = {}  # those under way

    async def open(self, settings: Json) -> Json:
        """Start the engine; settings hold fields of its, the scheduler's and a play's options."""
        scheduler = SchedulerConfig(**settings["scheduler"])
        self._options = PlayOptions(**settings.get("play", {}))
        clock = MonotonicClock()
        backend, codec = self._engine(settings, scheduler, clock)
        self._runtime: Runtime = await self._stack.enter_async_context(
            Runtime(
                {"default": (backend, codec)},
                clock=clock,
                observers=[self._observer],
                scheduler=scheduler,
                estimates=Estimates(),  # of this run alone, not of what the user ran before
            )
        )
        freeze_gc()
        capabilities = self._runtime.engines["default"].backend.capabilities
        return asdict(capabilities) if is_dataclass(capabilities) else {}

    def _engine(
        self, settings: Json, scheduler: SchedulerConfig, clock: Clock
    ) -> tuple[Backend, Codec | None]:
        """The engine in its process, and the codec of its prompts."""
        config = config_of({**settings["engine"], "policy": scheduler.policy})
        engine = EmbeddedBackend(config, clock)
        engine.launch()  # its process imports torch while we load the codec
        self._stack.push_async_callback(engine.aclose)
        backend = ReplayBackend(engine, self._plays, scheduler.policy)
        return backend, Codec.load(config.model_path)

    async def play(self, programs: list[ProgramLine], arrivals: str = "") -> Json:
        """Play programs, each from its arrival on.

        Args:
            programs: The programs.
            arrivals: Address of the bench that rings for them; "" goes by their seconds.
        """
        plays = dict(enumerate(Play(line, self._options) for line in programs))
        ended: dict[int, EndedPlay] = {}
        began_at_s = time.monotonic()
        self._observer.begin(began_at_s)

        coming = ProgramArrivals(
            [line["at_s"] for line in programs], lambda: time.monotonic() - began_at_s
        )

        async def one(at: int) -> None:
            arrived_s = await coming.wait(at)
            ended[at] = await self._play(plays.pop(at), began_at_s, arrived_s)
            coming.end(at)

        async with coming.followed(arrivals), anyio.create_task_group() as tasks:
            for at in range(len(programs)):
                tasks.start_soon(one, at)
        samples = [ended[at].sample(began_at_s) for at in range(len(programs))]
        return {"samples": samples, "steps": list(self._observer.steps)}

    async def _play(self, play: Play, began_at_s: float, arrived_s: float) -> EndedPlay:
        line = play.line
        self._runs += 1
        run_id = RunId(f"{self._runs:016x}")
        peak_tokens, longest_tokens = line.get("kv_tokens", (None, None))
        options = RunOptions(
            run_id=run_id,
            tenant=line["tenant"],
            true_service_s=play.rest_s,
            true_kv_tokens=peak_tokens,
            true_longest_tokens=longest_tokens,
        )
        error = ""
        self._plays[run_id] = play
        try:
            runtime = self._runtime.with_options(options)
            await runtime.run(program_of(line["shape"]), play)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        del self._plays[run_id]
        ended_s = time.monotonic() - began_at_s
        record = self._observer.records.get(run_id)
        return EndedPlay(play, record, (arrived_s, ended_s), error)


class EndedPlay:
    """Facts of a play that has ended, but for its chats, which end with it as a program's do.

    The sample is worked out when all have ended: other plays are being timed meanwhile.

    Args:
        play: The play.
        record: Record of its run.
        span_s: Instants of its arrival and of its result.
        error: Message of the error that ended it, or "".
    """

    def __init__(
        self, play: Play, record: RunRecord | None, span_s: tuple[float, float], error: str
    ) -> None:
        gens = {name: node for name, node in play.nodes.items() if isinstance(node, Gen)}
        self._line, self._record, self._span_s = play.line, record, span_s
        self._error = error or ("" if record is not None else "its run left no record")
        self._node_ids = {name: node.id for name, node in play.nodes.items()}
        self._answers = {
            name: (gen.meta.ledger, gen.text)
            for name, gen in gens.items()
            if gen.done and gen.error is None and name not in play.given_up
        }
        self._given_up = play.given_up
        self._wasted_tokens = sum(
            gens[name].written.produced_tokens for name in play.given_up if name in gens
        )

    def sample(self, began_at_s: float) -> ProgramSample:
        """The sample on the wire; instants count from the beginning of the play."""
        line, record = self._line, self._record
        found: ProgramSample = {
            "name": line["name"],
            "arrived_s": self._span_s[0],
            "ended_s": self._span_s[1],
            "calls": [],
            "waits": [],
            "given_up": self._given_up,
            "error": self._error,
        }
        if record is None:
            return found
        for played in line["nodes"]:
            name = played["name"]
            node = record.nodes.get(self._node_ids[name]) if name in self._node_ids else None
            if node is not None and played["kind"] == "call":
                found["calls"] += self._call(name, node, began_at_s)
            elif node is not None:
                found["waits"] += _wait(name, node, began_at_s)
        split_s = {} if self._error else split(record).parts()
        found["split"] = {str(label): seconds for label, seconds in split_s.items()}
        found["wasted_tokens"] = self._wasted_tokens
        return found

    def _call(self, name: str, node: NodeRecord, began_at_s: float) -> list[CallSample]:
        if name not in self._answers or node.finished is None:
            return []
        ledger, text = self._answers[name]
        drafts = {
            str(one.source): one.accepted_tokens for one in ledger.drafts if one.source != "grammar"
        }
        return [
            {
                "name": name,
                "began_s": node.declared.at_s - began_at_s,
                "first_s": ledger.first_token_at_s - began_at_s,
                "ended_s": node.finished.at_s - began_at_s,
                "prompt_tokens": ledger.prompt_tokens,
                "cached_tokens": ledger.cached_tokens,
                "late_tokens": ledger.late_tokens,
                "output_tokens": ledger.output_tokens,
                "output": text,
                "held_s": sum(sent.held_s for sent in node.sent),
                "forced_tokens": ledger.forced_tokens,
                "drafted_tokens": sum(drafts.values()),
                "drafts": drafts,
            }
        ]


def _wait(name: str, node: NodeRecord, began_at_s: float) -> list[WaitSample]:
    if not node.attempts or node.attempts[-1].ended_at_s is None:
        return []
    began, ended = node.attempts[0].started_at_s, node.attempts[-1].ended_at_s
    return [{"name": name, "began_s": began - began_at_s, "ended_s": ended - began_at_s}]


async def main() -> None:
    """Answer until standard input ends."""
    async with AsyncExitStack() as stack:
        await answer_lines(RuntimeArm(stack))


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        anyio.run(main)
