"""Latency of health checks and chat completions beside their floors, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.analysis.statistics import percentile
from agentrt.base.record import record
from agentrt.lab.bench.serve.direct_engine import DirectEngine
from agentrt.lab.bench.serve.questions import QuestionMaker
from agentrt.lab.bench.serve.raw_connection import (
    RawAnswer,
    RawConnection,
    chat_request,
    connected,
    health_request,
)
from agentrt.lab.errors import BenchFailed

_WARM_UP_PAIRS = 20
PROMPT_TOKENS = 200
NEW_TOKENS = 1


@record
class LatencyPairs:
    """Latencies of the server and of its floor, one of each a pair.

    Attributes:
        served_s: Seconds that a client of the server waited.
        floor_s: Seconds of the floor in the same pair.
    """

    served_s: Sequence[float]
    floor_s: Sequence[float]

    @property
    def served_p50_s(self) -> float:
        """Median of the server."""
        return percentile(self.served_s, 0.5)

    @property
    def floor_p50_s(self) -> float:
        """Median of the floor."""
        return percentile(self.floor_s, 0.5)

    @property
    def ratio(self) -> float:
        """Median of the server by the floor's."""
        return self.served_p50_s / self.floor_p50_s

    @property
    def added_s(self) -> float:
        """Median of the server beyond the floor's."""
        return self.served_p50_s - self.floor_p50_s


async def measure_health(server_port: int, plain_port: int, pairs: int) -> LatencyPairs:
    """Health checks of the server beside plain uvicorn's answers, on a kept-alive connection each.

    Args:
        server_port: Port of the server.
        plain_port: Port of plain uvicorn.
        pairs: Pairs that count.
    """
    arms = [await connected(server_port), await connected(plain_port)]
    found: list[tuple[float, float]] = []
    for number in range(_WARM_UP_PAIRS + pairs):
        waited_s = [0.0, 0.0]
        for arm in _turn(number):
            answer = await arms[arm].exchange(health_request())
            waited_s[arm] = _checked(answer).whole_s
        found.append((waited_s[0], waited_s[1]))
    return _pairs(found, arms)


async def measure_chat(
    server_port: int, engine: DirectEngine, maker: QuestionMaker, pairs: int
) -> LatencyPairs:
    """Chat completions over a kept-alive connection beside `Backend.submit` of the same ids.

    Each arm has an engine of its own, placed alike, so that their prefix caches hold the same: of a
    prompt, which no other pair has, the template's beginning.

    Args:
        server_port: Port of the server.
        engine: The engine without a server.
        maker: Maker of prompts.
        pairs: Pairs that count.
    """
    connection = await connected(server_port)
    found: list[tuple[float, float]] = []
    for number in range(_WARM_UP_PAIRS + pairs):
        question = maker.question(f"chat {number}", PROMPT_TOKENS, max_tokens=NEW_TOKENS)
        request = chat_request(question.fields)
        waited_s = [0.0, 0.0]
        for arm in _turn(number):
            if arm == 0:
                answer = _checked(await connection.exchange(request))
                _check_prompt(answer)
                waited_s[0] = answer.whole_s
            else:
                waited_s[1] = await engine.generate_s(question.token_ids, NEW_TOKENS)
        found.append((waited_s[0], waited_s[1]))
    return _pairs(found, [connection])


def _turn(number: int) -> tuple[int, int]:
    """The arms of a pair; which one goes first changes."""
    return (1, 0) if number % 2 else (0, 1)


def _pairs(
    found: Sequence[tuple[float, float]], connections: Sequence[RawConnection]
) -> LatencyPairs:
    for connection in connections:
        connection.close()
    counted = found[_WARM_UP_PAIRS:]
    return LatencyPairs([one for one, _ in counted], [other for _, other in counted])


def _checked(answer: RawAnswer) -> RawAnswer:
    if answer.status != 200:
        raise BenchFailed(f"the server answered {answer.status}: {answer.head_and_body[-300:]!r}")
    return answer


def _check_prompt(answer: RawAnswer) -> None:
    if f'"prompt_tokens":{PROMPT_TOKENS},'.encode() not in answer.head_and_body:
        raise BenchFailed("the server reads prompts as another number of tokens than the codec")
