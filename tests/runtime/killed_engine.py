"""Programs under an engine that is killed: `python tests/runtime/killed_engine.py [kills]`.

Rounds of 64 programs run on the embedded model in its own process while that process is killed, or
one time in four stopped, at random points: one time in four while it loads, else while it computes.
Printed are programs lost, outputs that differ from an undisturbed round, and KV pages that are
neither free nor evictable in the end.
"""

import json
import os
import random
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import anyio

from agentrt import OneOf, chat, embedded, program
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig, SpeculateTokens
from agentrt.engine.process.backend import EmbeddedBackend
from agentrt.protocol.events import Event
from agentrt.protocol.step_output import StepDone
from agentrt.runtime import Runtime

PROGRAMS = 64
ASK = chat(system="Be brief.")


@program
async def steps(number: int, temperature: float) -> list[Any]:
    first = ASK.user(f"Say something of {number}.").generate(
        max_tokens=30, name="first", temperature=temperature
    )
    listed = ASK.user(f"List numbers near {number}.").generate(
        list[int], max_tokens=40, on_limit="close", name="listed", temperature=temperature
    )
    again = ASK.user("Say it again.").generate(
        Annotated[str, OneOf(first)], max_tokens=120, name="again"
    )
    pieces = [piece async for piece in first.stream()]
    assert "".join(pieces) == await first
    then = ASK.user("And of ", first, "?").generate(
        max_tokens=30, name="then", temperature=temperature
    )
    assert await again == await first
    return [await first, await listed, await then]


@dataclass
class Found:
    """What a play of rounds gave.

    Attributes:
        kills: All kills.
        stops: Those that were stops.
        accepted_tokens: Tokens that were drawn as guessed from other texts than grammars.
    """

    kills: int = 0
    stops: int = 0
    in_loads: int = 0
    rounds: int = 0
    lost: list[str] = field(default_factory=list)
    changed: int = 0
    leaked_pages: int = 0
    accepted_tokens: int = 0


class Steps:
    """The last step, which has the free and evictable pages, and counts of all."""

    last: StepDone | None = None
    count = accepted_tokens = 0

    def on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, StepDone):
                drafts = [one for end in event.ends for one in end.ledger.drafts]
                self.accepted_tokens += sum(
                    one.accepted_tokens for one in drafts if one.source != "grammar"
                )
                if event.step is not None:
                    self.last = event
                    self.count += 1


async def play(
    kills: int,
    seed: int = 0,
    *,
    temperature: float = 0.0,
    speculate_tokens: SpeculateTokens = "off",
) -> Found:
    """Rounds of programs until the engine was killed so often.

    Args:
        kills: Number of kills.
        seed: Seed of their instants.
        temperature: Temperature of the programs.
        speculate_tokens: Drafts of the killed engines; those of the undisturbed one are off.
    """
    steps_seen, found, chance = Steps(), Found(), random.Random(seed)
    plain = EngineConfig(Path(embedded.path()))
    async with open_runtime(engine=plain) as runtime:
        expected = [str(one) for one in await a_round(runtime, temperature)]
    drafting = replace(plain, speculate_tokens=speculate_tokens)
    async with open_runtime(engine=drafting, observers=[steps_seen]) as runtime:
        backend = runtime.engines["default"].backend
        assert isinstance(backend, EmbeddedBackend)
        while found.kills < kills:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(kill_often, backend, steps_seen, chance, found, kills)
                results = await a_round(runtime, temperature)
                tasks.cancel_scope.cancel()
            found.rounds += 1
            for one, undisturbed in zip(results, expected, strict=True):
                if isinstance(one, Exception):
                    found.lost.append(f"{type(one).__name__}: {one}"[:300])
                else:
                    found.changed += str(one) != undisturbed
        await runtime.run(steps, 0, temperature)
        assert steps_seen.last is not None
        capacity = runtime.engines["default"].capabilities.kv_tokens // 16
        last = steps_seen.last
        found.leaked_pages = capacity - last.free_pages - last.evictable_pages
    found.accepted_tokens = steps_seen.accepted_tokens
    return found


async def a_round(runtime: Runtime, temperature: float) -> list[Any]:
    results: list[Any] = [None] * PROGRAMS

    async def run(number: int) -> None:
        try:
            results[number] = await runtime.run(steps, number, temperature)
        except Exception as error:
            results[number] = error

    async with anyio.create_task_group() as tasks:
        for number in range(PROGRAMS):
            tasks.start_soon(run, number)
    return results


async def kill_often(
    backend: EmbeddedBackend, steps_seen: Steps, chance: random.Random, found: Found, kills: int
) -> None:
    last_pid = None
    while found.kills < kills:
        while (pid := backend.pid) in (None, last_pid):  # noqa: ASYNC110  # of another process
            await anyio.sleep(0.01)
        in_load, seen = chance.random() < 0.25 and last_pid is not None, steps_seen.count
        while not in_load and steps_seen.count == seen:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        await anyio.sleep(chance.uniform(0.0, 2.0))
        if pid is None or pid != backend.pid:
            continue
        is_stop = chance.random() < 0.25
        found.kills += 1
        found.stops += is_stop
        found.in_loads += in_load
        os.kill(pid, signal.SIGSTOP if is_stop else signal.SIGKILL)
        last_pid = pid
        print(f"\r{found.kills}", end="", file=sys.stderr, flush=True)


def main() -> None:
    found = anyio.run(play, int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    print(json.dumps({**vars(found), "lost": len(found.lost), "examples": found.lost[:3]}))


if __name__ == "__main__":
    main()
