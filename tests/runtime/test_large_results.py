"""A large result of a tool does not stop the loop that keeps the deadlines."""

import threading
from typing import Any

import anyio
import pytest

from agentrt import DeadlineExceeded, RunConfig, ToolFailed, chat, program, tool
from agentrt.prompt.text_encoder import TextEncoder
from agentrt.runtime import RunOptions

ASK = chat(system="Be brief.")
TEXT = "The fox has 1,234 dens. " * 8_000


@pytest.fixture(autouse=True)
def wide(codec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "window_tokens", 1_000_000)


@pytest.fixture
def encodings(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads in which large texts are encoded."""
    threads: list[threading.Thread] = []
    encode = TextEncoder.seal

    def watched(self: TextEncoder, text: str, position: Any) -> Any:
        if len(text) > 100_000:
            threads.append(threading.current_thread())
        return encode(self, text, position)

    monkeypatch.setattr(TextEncoder, "seal", watched)
    return threads


@tool(effects="read")
async def report() -> str:
    return TEXT


@program
async def by_value() -> str:
    text = await report()
    return await ASK.user("Sum up: ", text).generate()


@program
async def by_hole() -> str:
    return await ASK.user("Shorten: ", report()).generate()


@program
async def slowly() -> str:
    text = await report()
    return await ASK.user("Take your time: ", text).generate()


@program
async def in_a_conversation() -> str:
    asked = ASK.user("Hello")
    hello = await asked.generate()
    return await asked.assistant(hello).user("Sum up: ", report()).generate()


@pytest.mark.parametrize(
    ("job", "question"), [(by_value, "Sum up: "), (by_hole, "Shorten: "), (in_a_conversation, "")]
)
def test_a_large_text_is_encoded_in_a_thread_once(
    bench: Any, codec: Any, encodings: list[threading.Thread], job: Any, question: str
) -> None:
    rig = bench(lambda request, prompt: "short", codec=codec)
    assert rig.run(job) == "short"
    assert len(encodings) == 1
    assert encodings[0] is not threading.main_thread()
    if question:
        whole = ASK.user(question, TEXT)
        sent = rig.backend.seen.requests[-1].prompt
        assert sent.token_ids == codec.encode((), whole.segments()).token_ids


def test_a_deadline_passes_while_a_text_is_encoded(
    bench: Any, codec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    encode = TextEncoder.seal

    def stuck(self: TextEncoder, text: str, position: Any) -> Any:
        if len(text) > 100_000:
            release.wait(60)
        return encode(self, text, position)

    monkeypatch.setattr(TextEncoder, "seal", stuck)

    async def main() -> None:
        rig = bench(["never"], codec=codec)
        async with rig.runtime() as runtime:
            with pytest.raises(DeadlineExceeded):
                await runtime.with_options(RunOptions(deadline_s=0.2)).run(slowly)
        assert not release.is_set()
        release.set()

    anyio.run(main)


def test_the_limit_is_a_setting(bench: Any, codec: Any) -> None:
    with pytest.raises(ToolFailed, match="more than 1000 bytes"):
        bench(["never"], codec=codec).run(by_value, config=RunConfig(max_result_bytes=1_000))
