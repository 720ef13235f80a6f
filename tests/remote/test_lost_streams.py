"""Streams that break off at any place: the program has each item and each piece of text once."""

import asyncio
import json
import random
import socket
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio
import pytest
from anyio.abc import SocketAttribute
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from agentrt import (
    DeadlineExceeded,
    EngineDied,
    EngineUnavailable,
    NodeCancelled,
    OutputDiverged,
    RequestRejected,
    chat,
    program,
    tool,
)
from agentrt.analysis import RunRecord, usage
from agentrt.base.clock import FakeClock, MonotonicClock
from agentrt.protocol.events import ItemClosed, NodeFinished, Scheduled
from agentrt.remote import RemoteBackend, RemoteLimits
from agentrt.remote.retries import Retries
from agentrt.runtime import Runtime
from tests.remote.hostile_server import DONE, Script, content, event, head, serving
from tests.runtime.conftest import Recorder

ASK = chat(system="Be brief.")
Small = Annotated[int, Field(ge=0, le=9999)]
LIMITS = RemoteLimits(attempts=3, outage_s=0.0, pause_s=0.0)
USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 11}}
AWAY = head("503 Service Unavailable")
ZQ = '{"zq":"qzx-vy7"}'


def call_event(index: int, name: str | None, arguments: str, finish: str | None = None) -> bytes:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    delta = {"tool_calls": [{"index": index, "function": function}]}
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def chunks_of(*texts: str, finish: str = "stop") -> list[bytes]:
    return [*(event(content(text)) for text in texts), event(content("", finish)), event(USAGE)]


def whole(chunks: list[bytes]) -> bytes:
    return head() + b"".join(chunks) + DONE


def cut(chunks: list[bytes], at: int, *, reset: bool = False, into: int = 0) -> bytes:
    """An answer that ends behind so many events, and so many bytes of the next one."""
    more = "Content-Length: 100000\r\n" if reset else ""
    rest = chunks[at][:into] if at < len(chunks) else b""
    return head(more=more) + b"".join(chunks[:at]) + rest


class Obedient(Script):
    """A script behind the probes of a server that enforces schemas and tools."""

    def __init__(self, *answers: bytes | None) -> None:
        super().__init__(answers)
        self.bodies: list[dict[str, Any]] = []
        self.hangs = False

    async def __call__(self, path: str, body: bytes, writer: Any) -> None:
        asked = json.loads(body) if body else {}
        if self.opened:
            self.bodies.append(asked)
        elif asked.get("tool_choice") == "required":
            writer.write(whole([call_event(0, "mark_zq", ZQ, "tool_calls")]))
            return
        elif asked.get("response_format"):
            writer.write(whole(chunks_of(ZQ)))
            return
        await super().__call__(path, body, writer)
        if self.opened and self.hangs:
            await anyio.sleep_forever()


@asynccontextmanager
async def opened(script: Script, recorder: Recorder, limits: RemoteLimits = LIMITS):
    async with serving(script) as url:
        clock = MonotonicClock()
        backend = RemoteBackend(url, clock=clock, limits=limits)
        runtime = Runtime({"default": (backend, None)}, clock=clock, observers=[recorder])
        async with runtime:
            script.opened = True
            yield runtime


async def outcome(runtime: Runtime, called: Any) -> Any:
    try:
        return await runtime.run(called)
    except Exception as error:
        return error


def played(
    portal: Any, called: Any, script: Script, limits: RemoteLimits = LIMITS
) -> tuple[Any, Recorder]:
    """The result or the error of a program, and all events."""
    recorder = Recorder()

    async def main() -> Any:
        async with opened(script, recorder, limits) as runtime:
            return await outcome(runtime, called)

    return portal.call(main), recorder


@program
async def listed() -> list[int]:
    node = ASK.user("x").each(Small, name="x")
    items = [item async for item in node]
    assert items == await node
    return items


@program
async def streamed() -> str:
    node = ASK.user("x").generate(name="x")
    text = "".join([piece async for piece in node.stream()])
    assert text == await node
    return text


@program
async def awaited() -> str:
    return await ASK.user("x").generate(name="x")


LIST = chunks_of("[1", ",2", "2,3", "33", ",4444", "]")
BREAKS = st.tuples(st.integers(0, len(LIST) - 2), st.booleans(), st.integers(0, 60))


@pytest.fixture(scope="module")
def lasting(portal):
    """An open server whose answers are given for each program."""
    script, recorder = Obedient(), Recorder()
    with portal.wrap_async_context_manager(opened(script, recorder)) as runtime:

        def play(called: Any, *answers: bytes) -> tuple[Any, Recorder, Obedient]:
            recorder.events.clear()
            script.answers, script.asked, script.bodies = list(answers), 0, []
            return portal.call(outcome, runtime, called), recorder, script

        yield play


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.lists(BREAKS, min_size=1, max_size=2))
def test_each_item_comes_once_wherever_streams_break(lasting, breaks):
    cuts = [cut(LIST, at, reset=reset, into=into) for at, reset, into in breaks]
    found, recorder, script = lasting(listed, *cuts, whole(LIST))
    assert found == [1, 22, 333, 4444]
    assert [one.index for one in recorder.of(ItemClosed)] == [0, 1, 2, 3]
    assert script.bodies == [script.bodies[0]] * (len(breaks) + 1), "the same request, and seed"


@pytest.mark.parametrize("at", range(len(LIST) - 1))
def test_what_broke_off_is_accounted(lasting, at):
    found, recorder, _ = lasting(listed, cut(LIST, at), whole(LIST))
    assert found == [1, 22, 333, 4444]
    (finished,) = recorder.of(NodeFinished, "x")
    assert finished.ledger.output_tokens == 11
    assert finished.ledger.retried_tokens == at
    assert finished.ledger.source == "inferred"
    decisions = [one.decision for one in recorder.of(Scheduled, "x")]
    again = ["resubmitted"] * (at > 0)  # before the first text the backend asks again
    assert decisions == ["placed", *again, "placed"]
    record = RunRecord(finished.run_id)
    record.on_events(recorder.events)
    assert (usage(record).retried_tokens, usage(record).output_tokens) == (at, 11 + at)


CALLS = [
    call_event(0, "double", ""),
    call_event(0, None, '{"x"'),
    call_event(0, None, ":1}"),
    call_event(1, "double", '{"x":2'),
    call_event(1, None, "}"),
    event(content("", "tool_calls")),
]


@pytest.mark.parametrize("at", range(len(CALLS)))
def test_each_call_comes_once_wherever_its_stream_breaks(lasting, at):
    ran = []

    @tool(effects="write")
    def double(x: Small) -> int:
        """Twice x."""
        ran.append(x)
        return 2 * x

    @program
    async def doubled() -> list[int]:
        plan = ASK.user("x").calls(double, name="x")
        started = [call.start() async for call in plan]
        return [await node for node in started]

    found, _, _ = lasting(doubled, cut(CALLS, at), whole(CALLS))
    assert (found, sorted(ran)) == ([2, 4], [1, 2])


def test_another_item_is_a_typed_error(lasting):
    other = chunks_of("[1", ",5", "]")
    found, recorder, _ = lasting(listed, cut(LIST, 4), whole(other))
    assert isinstance(found, OutputDiverged)
    assert (found.item, found.before, found.retryable) == (1, "22", False)
    assert "generate:x#0 had handed out item 1, '22'" in found.message
    assert [one.index for one in recorder.of(ItemClosed)] == [0, 1]


def test_an_item_that_was_only_begun_may_become_another_one(lasting):
    other = chunks_of("[1,22,3", "4]")
    found, _, _ = lasting(listed, cut(LIST, 4), whole(other))
    assert found == [1, 22, 34]


@pytest.mark.parametrize("second", [["Hi", " there"], ["Hel"], []])
def test_other_text_is_a_typed_error_only_if_it_was_read(lasting, second):
    answers = cut(chunks_of("Hello", " you"), 2), whole(chunks_of(*second))
    found, _, _ = lasting(streamed, *answers)
    assert isinstance(found, OutputDiverged)
    assert "had handed on 9 characters" in found.message
    found, _, _ = lasting(awaited, *answers)
    assert found == "".join(second)


def test_an_answer_with_its_end_is_whole_without_its_figures(lasting):
    """Its tokens are counted from here."""
    found, recorder, script = lasting(listed, cut(LIST, len(LIST) - 1, reset=True))
    assert (found, script.asked) == ([1, 22, 333, 4444], 1)
    (finished,) = recorder.of(NodeFinished, "x")
    assert (finished.ledger.output_tokens, finished.ledger.retried_tokens) == (6, 0)


ERRORS = [
    ({"message": "no memory", "code": 503}, True),
    ({"message": "no memory", "code": None, "type": "server_error"}, True),
    ({"message": "no memory", "code": 500, "type": "InternalServerError"}, True),
    ({"message": "no memory", "code": "EngineDied", "type": "server_error"}, True),
    ({"message": "no memory", "code": 400, "type": "BadRequestError"}, False),
    ("no memory", False),
]


@pytest.mark.parametrize(("error", "again"), ERRORS)
def test_an_error_of_the_server_in_the_middle_is_a_break(lasting, error, again):
    broken = cut(LIST, 3) + event({"error": error})
    found, _, script = lasting(listed, broken, whole(LIST))
    if again:
        assert found == [1, 22, 333, 4444]
    else:
        assert isinstance(found, RequestRejected)
    assert script.asked == 1 + again


def test_a_server_that_always_breaks_is_given_up(lasting):
    """New text counts its attempts anew; without any they are over."""
    found, recorder, script = lasting(listed, cut(LIST, 1), cut(LIST, 1), cut(LIST, 2))
    assert isinstance(found, EngineDied)
    assert script.asked == 2 + LIMITS.attempts
    (finished,) = recorder.of(NodeFinished, "x")
    assert (finished.ledger.output_tokens, finished.ledger.retried_tokens) == (2, 6)


def test_a_server_that_falls_silent_in_the_middle_is_asked_again(portal):
    class Silent(Obedient):
        async def __call__(self, path: str, body: bytes, writer: Any) -> None:
            self.hangs = not self.asked
            await super().__call__(path, body, writer)

    limits = RemoteLimits(attempts=3, outage_s=0.0, stall_s=0.02, pause_s=0.0)
    script = Silent(cut(LIST, 3), whole(LIST))
    found, _ = played(portal, listed, script, limits)
    assert (found, script.asked) == ([1, 22, 333, 4444], 2)


def test_a_host_that_is_gone_is_noticed_by_probes(portal, monkeypatch):
    connect, seen = anyio.connect_tcp, []

    async def connected(*args: Any, **options: Any) -> Any:
        stream = await connect(*args, **options)
        asyncio.get_running_loop().call_soon(note, stream.extra(SocketAttribute.raw_socket))
        return stream

    def note(connection: socket.socket) -> None:
        seen.append(connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

    monkeypatch.setattr(anyio, "connect_tcp", connected)

    async def main() -> None:
        async with opened(Obedient(), Recorder()):
            pass

    portal.call(main)
    assert set(seen) == {1}


def test_a_server_that_is_away_is_waited_for_within_a_bound():
    clock = FakeClock(100.0)
    limits = RemoteLimits(attempts=2, outage_s=30.0)
    tries = Retries("http://x", limits, clock, random.Random(0))
    for _ in range(9):
        assert tries.note_away()
    clock.advance(29.0)
    assert tries.note_away()
    clock.advance(1.0)
    assert not tries.note_away()
    tries.note_progress()
    assert tries.note_away()
    assert tries.note_failure()
    assert not tries.note_failure()


def test_lost_connections_end_by_number_and_by_time():
    clock = FakeClock(100.0)
    tries = Retries("http://x", RemoteLimits(attempts=3, outage_s=30.0), clock, random.Random(0))
    for _ in range(9):
        assert tries.note_loss()
    clock.advance(30.0)
    assert not tries.note_loss()
    tries.note_progress()
    assert tries.note_loss()
    clock.advance(30.0)
    assert tries.note_loss(), "these are only two attempts"
    assert not tries.note_loss()


def test_a_server_that_stays_away_is_unavailable(lasting):
    found, _, script = lasting(listed, cut(LIST, 3), AWAY)
    assert isinstance(found, EngineUnavailable)
    assert script.asked == 3


PHASES: dict[str, Callable[[], Obedient]] = {
    "no answer": lambda: Obedient(None),
    "in the middle": lambda: Obedient(cut(LIST, 3)),
    "between attempts": lambda: Obedient(cut(LIST, 3), AWAY),
    "away from the beginning": lambda: Obedient(AWAY),
}


@pytest.mark.parametrize("how", ["deadline", "cancel"])
@pytest.mark.parametrize("phase", PHASES)
def test_deadline_and_cancel_hold_in_each_phase(portal, phase, how):
    script = PHASES[phase]()
    script.hangs = phase == "in the middle"

    @program
    async def stopped() -> str:
        node = ASK.user("x").each(Small, name="x", deadline=0.05 if how == "deadline" else 99.0)
        if how == "cancel":
            while not script.asked:
                await anyio.lowlevel.checkpoint()
            node.cancel("enough")
        try:
            await node
        except (DeadlineExceeded, NodeCancelled) as error:
            return type(error).__name__
        return "done"

    limits = RemoteLimits(outage_s=3600.0, pause_s=0.01)
    found, _ = played(portal, stopped, script, limits)
    assert found == ("DeadlineExceeded" if how == "deadline" else "NodeCancelled")
