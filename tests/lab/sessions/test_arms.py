"""Sessions on a real engine: over HTTP and as programs, with the same outputs and cached tokens."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute, SocketStream

from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig
from agentrt.lab.errors import BenchFailed
from agentrt.lab.sessions.figures import figures
from agentrt.lab.sessions.http_arm import EXACT_LENGTHS, HttpArm, http_arm
from agentrt.lab.sessions.ideal import TokenTree
from agentrt.lab.sessions.play import (
    SessionArm,
    SessionPlay,
    play_arriving,
    play_one_by_one,
    with_ideal,
)
from agentrt.lab.sessions.program_arm import ProgramArm
from agentrt.lab.sessions.prompt_reader import CodecReader
from agentrt.lab.sessions.recorded import read_recordings
from agentrt.lab.sessions.samples import Watch
from agentrt.lab.sessions.slo import Slo
from agentrt.lab.workloads.agent_session import AgentMessage, AgentSession, AgentTurn
from agentrt.prompt import Codec
from agentrt.scheduler import Estimates
from tests.lab.sessions.made_wheel import made_wheel

SLO = Slo(60.0, 0.001)
Play = Callable[[SessionArm], Any]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> list[AgentSession]:
    """Recorded sessions, and one whose first answer starts two subagents."""
    wheel = made_wheel(tmp_path_factory.mktemp("wheel") / "made.whl")
    recorded = read_recordings(wheel)[0].sessions
    names = ("left", "right")
    subagents = tuple(
        AgentSession(f"beds/{name}", (AgentTurn((AgentMessage("user", f"The {name}?"),), (), 5),))
        for name in names
    )
    question = AgentMessage("user", "Which beds are dry?")
    answers = (AgentMessage("assistant", "Some."), AgentMessage("user", "Left: yes. Right: no."))
    first = AgentTurn((question,), (), 4, subagents=subagents)
    beds = AgentSession("beds", (first, AgentTurn((question, *answers), (), 6)))
    return [*recorded, beds]


@asynccontextmanager
async def programs(tiny: EngineConfig) -> AsyncIterator[ProgramArm]:
    async with open_runtime(engine=tiny, place="thread", estimates=Estimates()) as runtime:
        yield ProgramArm(runtime)


def played_by_programs(tiny: EngineConfig, play: Play) -> SessionPlay:
    async def main() -> SessionPlay:
        async with programs(tiny) as arm:
            found: SessionPlay = await play(arm)
            return found

    return anyio.run(main)


def played_over_http(url: str, play: Play) -> SessionPlay:
    async def main() -> SessionPlay:
        async with http_arm(url) as arm:
            found: SessionPlay = await play(arm)
            return found

    return anyio.run(main)


def beside_ideal(
    play: SessionPlay, sessions: list[AgentSession], tiny: EngineConfig
) -> SessionPlay:
    reader = CodecReader(Codec.load(tiny.model_path))
    return with_ideal(play, sessions, reader, TokenTree())


def compared(play: SessionPlay, sessions: list[AgentSession], tiny: EngineConfig) -> dict[str, Any]:
    return figures(beside_ideal(play, sessions, tiny), SLO)


def test_programs_find_every_token_that_was_computed(
    tiny: EngineConfig, sessions: list[AgentSession]
) -> None:
    recorded = sessions[:2]
    play = played_by_programs(tiny, lambda arm: play_one_by_one(arm, recorded))
    found = compared(play, recorded, tiny)
    assert found["errors"] == []
    assert found["played_turns"] == found["turns"] == found["exact_outputs"] == 5
    assert found["cached_by_ideal"] == 1
    assert found["cached_tokens"] > 0.4 * found["prompt_tokens"]


def test_a_turn_follows_the_subagents_of_the_one_before(
    tiny: EngineConfig, sessions: list[AgentSession]
) -> None:
    play = played_by_programs(tiny, lambda arm: play_one_by_one(arm, sessions[2:]))
    found = compared(play, sessions[2:], tiny)
    assert found["played_turns"] == found["turns"] == found["exact_outputs"] == 4
    by_name = {(turn.session, turn.turn): turn for turn in play.samples()}
    parts = [by_name["beds/left", 0], by_name["beds/right", 0]]
    assert by_name["beds", 0].ended_s <= min(part.began_s for part in parts)
    assert max(part.ended_s for part in parts) <= by_name["beds", 1].began_s


def test_a_server_answers_the_same(
    tiny: EngineConfig, own_server_url: str, sessions: list[AgentSession]
) -> None:
    ours = played_by_programs(tiny, lambda arm: play_one_by_one(arm, sessions))
    play = played_over_http(own_server_url, lambda arm: play_one_by_one(arm, sessions))
    found = compared(play, sessions, tiny)
    assert found["errors"] == []
    assert found["exact_outputs"] == found["turns"] == 9
    # Other tests add to what is cached; subagents that run at once may miss tokens of each other.
    for turn in beside_ideal(play, sessions, tiny).samples():
        if "/" not in turn.session:
            assert (turn.cached_tokens or 0) >= (turn.ideal_tokens or 0)
    outputs = [
        {(turn.session, turn.turn): (turn.prompt_tokens, turn.output_hash) for turn in turns}
        for turns in (ours.samples(), play.samples())
    ]
    assert outputs[0] == outputs[1]


def test_agents_arrive_and_overlap(tiny: EngineConfig, sessions: list[AgentSession]) -> None:
    arriving = [
        replace(session.salted(f"{number}\n"), name=f"{session.name} {number}")
        for number in range(2)
        for session in sessions[:2]
    ]
    play = played_by_programs(
        tiny, lambda arm: play_arriving(arm, arriving, 1000.0, Random("arrivals"))
    )
    assert [agent.session for agent in play.agents] == [one.name for one in arriving]
    arrivals = [agent.arrived_s for agent in play.agents]
    assert arrivals == sorted(arrivals)
    assert arrivals[0] == 0
    found = compared(play, arriving, tiny)
    assert (found["errors"], found["exact_outputs"], found["within_slo"]) == ([], 10, 1)


def test_an_agent_that_fails_says_why(tiny: EngineConfig, own_server_url: str) -> None:
    short = AgentTurn((AgentMessage("user", "a"),), (), 2)
    long = AgentTurn((AgentMessage("user", "word " * 5000),), (), 2)
    session = AgentSession("long", (short, long))
    subagent = AgentSession("long/sub", (long,))
    parent = AgentSession("parent", (replace(short, subagents=(subagent,)),))
    for play in (
        played_by_programs(tiny, lambda arm: play_one_by_one(arm, [session, parent])),
        played_over_http(own_server_url, lambda arm: play_one_by_one(arm, [session, parent])),
    ):
        for agent in play.agents:
            assert len(agent.turns) == 1
            assert "4096" in agent.error.replace(",", "")
        assert figures(play, SLO)["within_slo"] == 0.5


def answered(*chunks: str, status: int = 200) -> Any:
    """An arm whose server streams these chunks, and the bodies that it was sent."""
    bodies: list[dict[str, Any]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(status, content="".join(f"data: {one}\n\n" for one in chunks))

    client = httpx.AsyncClient(
        transport=httpx.MockTransport(handle), base_url="http://made.invalid/v1/"
    )
    return HttpArm(client, "m", EXACT_LENGTHS), bodies


def delta(**fields: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": fields}]})


TURN = AgentTurn((AgentMessage("user", "a"),), (), 3)


def test_tokens_of_any_kind_are_tokens() -> None:
    call = {"index": 0, "function": {"name": "water", "arguments": "{}"}}
    usage = json.dumps({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}})
    arm, bodies = answered(
        delta(role="assistant", content=""), delta(reasoning_content="Hm."), delta(content="a"),
        delta(tool_calls=[call]), usage, "[DONE]",
    )  # fmt: skip
    answer = anyio.run(arm.answer, TURN, Watch())
    assert answer.first_s is not None
    assert (answer.prompt_tokens, answer.cached_tokens, answer.output_tokens) == (9, None, 3)
    assert answer.text.startswith("Hm.a")
    (body,) = bodies
    assert (body["max_tokens"], body["ignore_eos"], body["stream"]) == (3, True, True)
    assert "tools" not in body


def test_a_server_that_reports_nothing_is_counted_by_chunks() -> None:
    arm, _ = answered(delta(content="a"), delta(content="b"), "[DONE]")
    answer = anyio.run(arm.answer, TURN, Watch())
    assert (answer.prompt_tokens, answer.cached_tokens, answer.output_tokens) == (None, None, 2)


@pytest.mark.parametrize(
    ("chunks", "status", "said"),
    [
        (["busy"], 503, "the server answered 503: data: busy"),
        ([delta(content="a"), '{"error": "out of memory"}'], 200, "in the middle.*out of memory"),
    ],
)
def test_what_a_server_refuses_is_said(chunks: list[str], status: int, said: str) -> None:
    arm, _ = answered(*chunks, status=status)
    with pytest.raises(BenchFailed, match=said):
        anyio.run(arm.answer, TURN, Watch())


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    async def opened() -> None:
        async with http_arm("http://127.0.0.1:9/v1"):
            raise AssertionError

    with pytest.raises(BenchFailed, match="lists no model"):
        anyio.run(opened)


@pytest.mark.parametrize(("closed", "sent"), [(2, 3), (3, 3)])
def test_a_request_whose_connection_was_closed_is_sent_again(closed: int, sent: int) -> None:
    """A server that closes connections, as some do with those that were kept, before any answer."""
    connections = 0
    body = f"data: {delta(content='a')}\n\ndata: [DONE]\n\n"
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"

    async def serve(stream: SocketStream) -> None:
        nonlocal connections
        connections += 1
        async with stream:
            received = b""
            while b'"stream"' not in received:
                received += await stream.receive()
            if connections > closed:
                await stream.send((head + body).encode())

    async def asked() -> str:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            port = listener.extra(SocketAttribute.local_port)
            async with http_arm(f"http://127.0.0.1:{port}/v1", "m") as arm:
                try:
                    found = (await arm.answer(TURN, Watch())).text
                except httpx.TransportError as error:
                    found = type(error).__name__
            tasks.cancel_scope.cancel()
        return found

    found = anyio.run(asked)
    assert connections == sent
    assert found == "a" if closed < sent else found.endswith("Error")


def test_an_answer_that_has_begun_is_not_asked_for_again() -> None:
    requests = 0

    class Broken(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield f"data: {delta(content='a')}\n\n".encode()
            raise httpx.ReadError("gone")

    def handle(request: httpx.Request) -> httpx.Response:
        nonlocal requests
        requests += 1
        return httpx.Response(200, stream=Broken())

    transport = httpx.MockTransport(handle)
    client = httpx.AsyncClient(transport=transport, base_url="http://made.invalid/v1/")
    with pytest.raises(httpx.ReadError, match="gone"):
        anyio.run(HttpArm(client, "m", EXACT_LENGTHS).answer, TURN, Watch())
    assert requests == 1
