"""Every program and example gets the tokens that it gets without drafts, also of a killed engine.

On the embedded model in float32, at temperature 0 and 0.8, whatever the program declares.
"""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest

from agentrt import embedded
from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig, SpeculateTokens
from agentrt.base.ids import RequestId
from agentrt.cli import target
from agentrt.cli.inputs import arguments_of
from agentrt.cli.parameters import parameters_of
from agentrt.engine.process.backend import EmbeddedBackend, Placement
from agentrt.prompt import Codec
from agentrt.protocol.backend import GenerateRequest, HoleFill
from agentrt.protocol.step_output import BackendEvent, StepDone
from agentrt.runtime import Runtime
from tests.test_examples import EXAMPLES, PROGRAMS, commands_of

pytestmark = [pytest.mark.model, pytest.mark.slow]

Key = tuple[str, tuple[int, ...], int, int]
"""Site, prompt, seed and limit of a request."""


@dataclass
class Play:
    """One play of a program, and what its engine told.

    Attributes:
        temperature: Temperature of all its requests.
        tokens: Tokens of drafts.
        killed_behind: Tokens behind which the engine's process is killed; 0 never kills.
        requests: Requests as they came, by id.
        prompts: Their prompts, holes filled.
        told: Tokens of each request.
        cancelled: Requests that were ended by the program.
        kills: Processes that were killed.
    """

    temperature: float
    tokens: SpeculateTokens
    killed_behind: int = 0
    requests: dict[RequestId, GenerateRequest] = field(default_factory=dict)
    prompts: dict[RequestId, tuple[int, ...]] = field(default_factory=dict)
    told: dict[RequestId, list[int]] = field(default_factory=dict)
    cancelled: set[RequestId] = field(default_factory=set)
    kills: int = 0

    def outputs(self, *, whole: bool) -> dict[Key, list[int]]:
        """The longest output of each kind of request, of those that the program let end or not."""
        found: dict[Key, list[int]] = {}
        for request_id, request in self.requests.items():
            if (request_id not in self.cancelled) == whole:
                sampling = request.sampling
                key = request.site, self.prompts[request_id], sampling.seed, sampling.max_tokens
                found[key] = max(found.get(key, []), self.told[request_id], key=len)
        return found

    @property
    def told_tokens(self) -> int:
        """Tokens of all outputs so far."""
        return sum(map(len, self.told.values()))


class PlayedBackend(EmbeddedBackend):
    """The embedded engine with a temperature of the test, noted, and killed at a token."""

    play: Play

    def submit(self, request: GenerateRequest) -> None:
        sampling = replace(request.sampling, temperature=self.play.temperature)
        request = replace(request, sampling=sampling)
        self.play.requests[request.request_id] = request
        self.play.prompts[request.request_id] = tuple(getattr(request.prompt, "token_ids", ()))
        self.play.told[request.request_id] = list(request.output_ids)
        super().submit(request)

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        self.play.prompts[request_id] += tuple(fill.token_ids)
        super().fill_hole(request_id, fill)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        self.play.cancelled.add(request_id)
        super().cancel(request_id, reason)

    async def events(self) -> AsyncIterator[BackendEvent]:
        async for event in super().events():
            if isinstance(event, StepDone):
                for delta in event.deltas:
                    self.play.told[delta.request_id] += delta.token_ids
                self._kill_half_way()
            yield event

    def _kill_half_way(self) -> None:
        play = self.play
        if play.killed_behind and not play.kills and play.told_tokens >= play.killed_behind:
            assert self.pid is not None
            os.kill(self.pid, signal.SIGKILL)
            play.kills += 1


def played(path: Path, flags: dict[str, str], play: Play) -> Play:
    """A play of a program or example, without its deadline: near one an output ends early."""
    config = EngineConfig(
        Path(embedded.path()), dtype="float32", threads=1, speculate_tokens=play.tokens
    )
    program = target.find(str(path))
    program.deadline_s = None
    arguments = arguments_of(parameters_of(program), flags, None, where=path.stem)

    async def main() -> None:
        clock = MonotonicClock()
        place: Placement = "process" if play.killed_behind else "thread"
        engine = PlayedBackend(config, clock, place=place)
        engine.play = play
        async with Runtime({"default": (engine, Codec.load(config.model_path))}) as runtime:
            await runtime.run(program, **arguments)

    anyio.run(main)
    return play


def check_same(found: Play, expected: Play) -> None:
    """The same tokens; what a program cut off is the same as far as it goes."""
    here, there = found.outputs(whole=True), expected.outputs(whole=True)
    cut_here, cut_there = found.outputs(whole=False), expected.outputs(whole=False)
    for key in here.keys() & there.keys():
        assert here[key] == there[key], key[0]
    for part, whole in ((cut_here, there | cut_there), (cut_there, here | cut_here)):
        for key in part.keys() & whole.keys():
            shared = min(len(part[key]), len(whole[key]))
            assert part[key][:shared] == whole[key][:shared], key[0]
    if not cut_here and not cut_there:
        assert here.keys() == there.keys()


EXAMPLE_FLAGS = {
    "01_hello": {"question": "What is 47 + 38?"},
    "02_types": {"text": "Mara Lindt (mara@example.org) here. Please send 3 desk lamps to Oslo."},
    "03_fork": {"question": "What is 47 + 38?"},
    "04_tools": {},
    "05_stream": {"question": "What is 20 + 22?"},
    "06_limits": {"text": "Mara Lindt, Oslo, mara@example.org: 3 desk lamps please."},
    "07_many_runs": {"question": "What is 40 - 17?"},
    "08_answers": {"mail": "Mara Lindt here. Please send 3 desk lamps to Oslo before the weekend."},
    "09_tags": {"question": "Please add 3 lamps to the 4 that I ordered."},
}


def flags_of(path: Path) -> Iterator[dict[str, str]]:
    """Flags with which a program is run, by its docstring."""
    for _, _, _, *words in commands_of(path):
        names = [word.removeprefix("--") for word in words[::2]]
        yield dict(zip(names, words[1::2], strict=True))


CASES = [
    *((path, flags) for path in PROGRAMS for flags in flags_of(path)),
    *((path, EXAMPLE_FLAGS[path.stem]) for path in EXAMPLES),
]


@pytest.mark.usefixtures("folder_here")
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize(("path", "flags"), CASES, ids=[path.stem for path, _ in CASES])
def test_drafts_and_kills_change_no_token(
    path: Path, flags: dict[str, str], temperature: float
) -> None:
    """With drafts of fixed and adaptive length, and of an engine that is killed half way."""
    plain = played(path, flags, Play(temperature, "off"))
    assert plain.told_tokens
    drafting: list[SpeculateTokens] = [7, "auto"]
    for tokens in drafting:
        check_same(played(path, flags, Play(temperature, tokens)), plain)
    half = max(1, plain.told_tokens // 2)
    killed = played(path, flags, Play(temperature, 7, half))
    assert killed.kills == 1
    check_same(killed, plain)
