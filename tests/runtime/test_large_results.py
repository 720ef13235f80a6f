"""A large result of a tool does not stop the loop that keeps the deadlines."""

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt import DeadlineExceeded, RunConfig, ToolFailed, chat, embedded, program, tool
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.prompt import Codec
from agentrt.prompt.text_encoder import TextEncoder, TextPosition
from agentrt.runtime import RunOptions

ASK = chat(system="Be brief.")
TEXT = "The fox has 1,234 dens. " * 8_000


class WatchedTexts(TextEncoder):
    """Notes the threads in which large texts are encoded, and may hold them there."""

    def __init__(self, texts: TextEncoder) -> None:
        vars(self).update(vars(texts))
        self.threads: list[threading.Thread] = []
        self.gate = threading.Event()
        self.gate.set()

    def seal(self, text: str, position: TextPosition) -> tuple[tuple[int, ...], str]:
        if len(text) > 100_000:
            self.threads.append(threading.current_thread())
            assert self.gate.wait(60)
        return super().seal(text, position)


@pytest.fixture
def watched() -> Codec:
    """A codec of its own, with a wide window."""
    codec = Codec.load(Path(embedded.path()))
    codec.window_tokens = 1_000_000
    codec.parts.texts = WatchedTexts(codec.parts.texts)
    return codec


def texts_of(codec: Codec) -> WatchedTexts:
    assert isinstance(codec.parts.texts, WatchedTexts)
    return codec.parts.texts


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
async def in_a_conversation() -> str:
    asked = ASK.user("Hello")
    hello = await asked.generate()
    return await asked.assistant(hello).user("Sum up: ", report()).generate()


@pytest.mark.parametrize(
    ("job", "question"), [(by_value, "Sum up: "), (by_hole, "Shorten: "), (in_a_conversation, "")]
)
def test_a_large_text_is_encoded_in_a_thread_once(
    bench: Any, watched: Codec, job: Any, question: str
) -> None:
    rig = bench(lambda request, prompt: "short", codec=watched)
    assert rig.run(job) == "short"
    (thread,) = texts_of(watched).threads
    assert thread is not threading.main_thread()
    if question:
        whole = ASK.user(question, TEXT)
        sent = rig.backend.seen.requests[-1].prompt
        assert sent.token_ids == watched.encode((), prompt_segments(whole)).token_ids


def test_a_deadline_passes_while_a_text_is_encoded(bench: Any, watched: Codec) -> None:
    gate = texts_of(watched).gate
    gate.clear()

    async def main() -> None:
        async with bench(["never"], codec=watched).runtime() as runtime:
            with pytest.raises(DeadlineExceeded):
                await runtime.with_options(RunOptions(deadline_s=0.2)).run(by_value)
        gate.set()

    anyio.run(main)


def test_the_limit_is_a_setting(bench: Any, codec: Codec) -> None:
    with pytest.raises(ToolFailed, match="more than 1000 bytes"):
        bench(["never"], codec=codec).run(by_value, config=RunConfig(max_result_bytes=1_000))
