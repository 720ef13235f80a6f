"""Programs over our own server: few prompt tokens are late, since the rest was warmed ahead."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agentrt import RemoteEngineConfig, chat, program, tool
from agentrt.base.clock import MonotonicClock
from agentrt.protocol.events import NodeFinished
from agentrt.remote import RemoteEngines
from agentrt.remote.remote_engines import codec_at
from agentrt.runtime import Runtime
from tests.runtime.conftest import Recorder

SALTS = iter("abcdefgh")  # no test finds what another one has left in the cache


class Bench:
    """Plays programs on our server, with warm-ups or without."""

    def __init__(self, portal: Any, url: str, tiny: Any) -> None:
        self.portal = portal
        self.url = url
        self.tiny = tiny
        self.backend: Any = None

    def play(self, body: Any, *, warm_ahead: bool, has_ids: bool = True) -> NodeFinished:
        """The end of the join of a program."""
        recorder = Recorder()

        async def main() -> None:
            engine = RemoteEngineConfig(
                kind="agentrt",
                address=self.url,
                model="tiny",
                tokenizer=str(self.tiny.model_path) if has_ids else "",
                warm_ahead=warm_ahead,
            )
            clock = MonotonicClock()
            self.backend = RemoteEngines(clock, {"AGENTRT_CAPABILITIES": "off"}, {}).backend(engine)
            codec = codec_at(engine.tokenizer) if has_ids else None
            engines = {"default": (self.backend, codec)}
            async with Runtime(engines, clock=clock, observers=[recorder]) as runtime:
                await runtime.run(body, next(SALTS))

        self.portal.call(main)
        (end,) = recorder.of(NodeFinished, "join")
        assert isinstance(end, NodeFinished)
        assert end.outcome == "ok"
        return end

    async def warmed(self, tokens: int) -> None:
        """Wait until warm-ups have computed so many tokens, if there are any."""
        while getattr(self.backend, "computed_tokens", tokens) < tokens:
            await anyio.lowlevel.checkpoint()


@pytest.fixture
def bench(portal, own_server_url, tiny):
    return Bench(portal, own_server_url.removesuffix("/v1"), tiny)


def both(bench: Bench, body: Any, *, has_ids: bool = True) -> tuple[Any, Any]:
    """The ledgers of the join with and without warm-ups."""
    found = [bench.play(body, warm_ahead=on, has_ids=has_ids).ledger for on in (True, False)]
    return found[0], found[1]


@pytest.mark.parametrize("has_ids", [True, False])
def test_a_join_with_a_slow_tool_has_few_late_tokens(bench, has_ids):
    notes = " ".join(f"note {number} of the day," for number in range(150))

    @tool(effects="pure")
    async def slow() -> str:
        """A tool that takes as long as the prompt before it."""
        await bench.warmed(600)
        return "the result"

    @program
    async def joined(salt: str) -> str:
        pending = slow()
        asked = chat(system=f"{salt} Be brief.").user(notes, pending, " Which?")
        return await asked.generate(name="join", max_tokens=4)

    warmed, plain = both(bench, joined, has_ids=has_ids)
    assert warmed.prompt_tokens == plain.prompt_tokens > 600
    assert plain.late_tokens == plain.prompt_tokens - plain.cached_tokens > 600
    assert warmed.late_tokens < 64
    assert warmed.warmed_tokens >= warmed.ahead_tokens - 16
    assert plain.warmed_tokens == plain.ahead_tokens == 0


def test_a_join_behind_a_long_generation_has_few_late_tokens(bench):
    """The prompt takes the text while it is written; the tool only waits for the last warm-up."""

    ended = anyio.Event()

    @tool(effects="pure")
    async def check() -> str:
        """A tool that takes as long as the draft and the prompt with it."""
        await ended.wait()
        await bench.warmed(512)
        return "fine"

    @program
    async def joined(salt: str) -> str:
        write = chat(system=f"{salt} Be brief.").user("Write.")
        draft = write.generate(name="draft", max_tokens=1400, ignore_eos=True, seed=5)
        judge = chat(system=f"{salt} Judge.").user("Of: ", draft, "\nChecked: ", check())
        join = judge.generate(name="join", max_tokens=4)
        await draft
        ended.set()
        return await join

    warmed, plain = both(bench, joined)
    assert plain.late_tokens > 800
    assert warmed.late_tokens <= warmed.prompt_tokens - 512
    assert warmed.ahead_tokens >= 512
    assert warmed.warmed_tokens >= 512
