"""With content capture off, no word of a prompt, an answer or a tool is in a trace."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import anyio
import pytest

from agentrt import DeadlineExceeded, chat, embedded, program, tool
from agentrt.analysis import RunRecord
from agentrt.prompt import Codec
from agentrt.protocol.events import Event
from agentrt.runtime import Runtime
from agentrt.telemetry import build
from agentrt.telemetry.content import Capture
from agentrt.telemetry.jaeger import jaeger_json
from agentrt.telemetry.resource import resources_of
from agentrt.testing import LoopClock, ScriptedBackend, run_virtual

CANARIES = (
    *("canary-prompt", "canary-system", "canary-answer", "canary-argument", "canary-result"),
    *("canary-raised", "canary-retried", "canary-option", "canary-item", "canary-program"),
)


@tool(effects="read")
def echo(text: str) -> str:
    """Give a text back."""
    return f"{text} canary-result"


@tool(effects="read", retries=2)
def failing(text: str) -> str:
    """Fail."""
    raise ValueError(f"canary-raised canary-retried {text}")


@program
async def inner(text: str) -> str:
    raise RuntimeError(f"canary-program {text}")


@program(deadline=1.0)
async def late(text: str) -> str:
    await anyio.sleep(60.0)
    return text


@program
async def own_error(text: str) -> str:
    raise DeadlineExceeded(f"canary-program {text}")


@program
async def outer(text: str) -> str:
    asked = chat(system="canary-system").user(f"canary-prompt {text}")
    chosen = await asked.generate(Literal["canary-option", "canary-answer"])
    items = await asked.generate(list[Literal["canary-item", "other"]])
    await echo(f"canary-argument {chosen} {items}")
    for part in (failing, inner, late, own_error):
        try:
            await part("canary-argument")
        except Exception:
            continue
    waiting = echo("canary-argument")
    waiting.cancel()
    raise RuntimeError(f"canary-program {chosen}")


class Seen:
    def __init__(self) -> None:
        self.record = RunRecord()

    def on_events(self, events: Sequence[Event]) -> None:
        self.record.on_events(events)


@pytest.fixture(scope="module")
def record() -> RunRecord:
    seen, clock = Seen(), LoopClock()
    codec = Codec.load(Path(embedded.path()))

    async def main() -> None:
        answers = iter(["canary-answer", '["canary-item"]'])
        backend = ScriptedBackend(lambda request, prompt: next(answers), clock=clock, codec=codec)
        async with Runtime({"default": (backend, codec)}, clock=clock, observers=[seen]) as runtime:
            with pytest.raises(RuntimeError):
                await runtime.run(outer, "canary-argument")

    run_virtual(main)
    return seen.record


def test_no_canary_is_in_any_form(record: RunRecord) -> None:
    trace = build(record)
    written = jaeger_json([trace], resources_of({})) + repr(trace)
    assert {word for word in CANARIES if word in written} == set()
    assert "echo" in written
    assert "Literal" in written


def test_an_error_of_ours_without_content_is_told(record: RunRecord) -> None:
    written = repr(build(record))
    assert "program:late#0 passed its deadline of 1 s" in written
    assert written.count("DeadlineExceeded") >= 2, "another one was raised by a program"


def test_with_capture_errors_are_told(record: RunRecord) -> None:
    capture: Capture = "SPAN_ONLY"
    assert "canary-raised" in repr(build(record, capture))


def test_an_error_keeps_its_type(record: RunRecord) -> None:
    errors = {span.error for span in build(record).spans} - {None}
    assert {"ToolFailed", "RuntimeError"} <= errors
