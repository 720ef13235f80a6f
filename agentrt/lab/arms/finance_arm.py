"""The process of an arm that runs the finance program: our runtime with the embedded model.

The model decides what it writes, so that drafts are accepted as often as in real text.

Run as `python -P -m agentrt.lab.arms.finance_arm`; it answers `open` and `ask`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import anyio

from agentrt.app import open_runtime
from agentrt.base.gc_freeze import freeze_gc
from agentrt.lab.arms.answering import answer_lines
from agentrt.lab.arms.drafted_tokens import DraftedTokens, hash_of
from agentrt.lab.arms.engine_settings import config_of
from agentrt.protocol.events import Event
from agentrt.protocol.step_output import StepDone
from agentrt.runtime import RunOptions, Runtime
from agentrt.scheduler import Estimates

Json = dict[str, Any]
_LONGEST_S = 600.0
"""Deadline in place of the program's own, at which a slow machine would end other outputs."""


class WorkObserver:
    """Observer that counts the work of the engine.

    Attributes:
        steps: Steps.
        rows: Rows of these steps, drafts included.
        tokens: Tokens written.
        prefill_s: Seconds of the steps that computed a part of a prompt.
        decode_s: Seconds of the other steps.
        drafts: Drafted tokens of requests that have ended.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin anew."""
        self.steps = self.rows = self.tokens = 0
        self.prefill_s = self.decode_s = 0.0
        self.drafts = DraftedTokens()

    def on_events(self, events: Sequence[Event]) -> None:
        """Take a batch of events."""
        for event in events:
            if not isinstance(event, StepDone):
                continue
            if event.step is not None:
                self.steps += 1
                self.rows += event.step.decode_tokens + event.step.extra_rows
                took_s = event.step.ended_at_s - event.step.started_at_s
                if event.step.prefill_tokens:
                    self.prefill_s += took_s
                else:
                    self.decode_s += took_s
            self.tokens += sum(len(delta.token_ids) for delta in event.deltas)
            for end in event.ends:
                self.drafts.add(end.ledger)


class FinanceArm:
    """A runtime of its own, and the program that it runs.

    Args:
        stack: Closes the runtime.
    """

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._observer = WorkObserver()

    async def open(self, settings: Json) -> Json:
        """Start the engine; settings hold fields of `EngineConfig` and the folder of `programs`."""
        self._program = finance_in(Path(settings["programs"]))
        self._runtime: Runtime = await self._stack.enter_async_context(
            open_runtime(
                engine=config_of(settings["engine"]),
                models={},
                observers=[self._observer],
                estimates=Estimates(),  # of this run alone, not of what the user ran before
            )
        )
        freeze_gc()
        capabilities = self._runtime.engines["default"].backend.capabilities
        return asdict(capabilities) if is_dataclass(capabilities) else {}

    async def ask(self, questions: list[str]) -> Json:
        """Run the program on all questions at once."""
        runtime = self._runtime.with_options(RunOptions(deadline_s=_LONGEST_S))
        answers = [""] * len(questions)

        async def one(at: int) -> None:
            answers[at] = repr(await runtime.run(self._program, questions[at]))

        observer = self._observer
        observer.begin()
        began_s = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for at in range(len(questions)):
                tasks.start_soon(one, at)
        return {
            "seconds": time.perf_counter() - began_s,
            "tokens": observer.tokens,
            "steps": observer.steps,
            "rows": observer.rows,
            "prefill_s": observer.prefill_s,
            "decode_s": observer.decode_s,
            "accepted": dict(observer.drafts.accepted),
            "rejected": dict(observer.drafts.rejected),
            "output_hash": hash_of(answers),
        }


def finance_in(folder: Path) -> Any:
    """The finance program of a folder, with the modules beside it."""
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("finance", folder / "finance.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["finance"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.finance


async def main() -> None:
    """Answer until standard input ends."""
    async with AsyncExitStack() as stack:
        await answer_lines(FinanceArm(stack))


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        anyio.run(main)
