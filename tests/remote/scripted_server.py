"""A server whose answers a test writes; what it is said to enforce, it enforces in probes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.remote.hostile_server import DONE, event, head, serving

Json = dict[str, Any]
MODELS = json.dumps({"data": [{"id": "m", "owned_by": "someone"}]}).encode()
PROBED = "Say hello."


def text(content: str, finish: str = "stop") -> list[Json]:
    """Chunks of an answer in text, cut into pieces."""
    half = len(content) // 2
    pieces = [{"content": one} for one in (content[:half], content[half:]) if one]
    return [*map(delta, pieces), delta({}, finish)]


def calls(*made: tuple[str, str]) -> list[Json]:
    """Chunks of an answer of calls, (name, arguments) each, whose indexes are all 0."""
    found = []
    for at, (name, arguments) in enumerate(made):
        function = {"name": name, "arguments": arguments}
        found.append(delta({"tool_calls": [{"index": 0, "id": f"c{at}", "function": function}]}))
    return [*found, delta({}, "tool_calls")]


def delta(fields: Json, finish: str | None = None) -> Json:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


class Script:
    """Answers in turn, and the requests that got them.

    Args:
        answers: Chunks of each answer.
        enforces: What it proves when it is probed: of "json" and "calls".
        refuses: Why a request is refused, or None.
        usage: Token counts that it reports.
    """

    def __init__(
        self,
        answers: Sequence[list[Json]],
        enforces: Collection[str] = (),
        refuses: Callable[[Json], str | None] = lambda body: None,
        usage: Json | None = None,
    ) -> None:
        self.answers = list(answers)
        self.enforces = enforces
        self.refuses = refuses
        self.usage = usage
        self.seen: list[Json] = []

    async def __call__(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if path.endswith("/models"):
            writer.write(head(kind="application/json") + MODELS)
            return
        asked = json.loads(body)
        if wrong := self.refuses(asked):
            error = json.dumps({"error": {"message": wrong}}).encode()
            writer.write(head("400 Bad Request", "application/json") + error)
            return
        if asked["messages"][-1]["content"] == PROBED:
            chunks = self._proof(asked)
        else:
            self.seen.append(asked)
            chunks = self.answers[min(len(self.seen), len(self.answers)) - 1]
        last = [{"choices": [], "usage": self.usage}] if self.usage else []
        writer.write(head() + b"".join(map(event, [*chunks, *last])) + DONE)
        await writer.drain()

    def _proof(self, asked: Json) -> list[Json]:
        word = '{"zq":"qzx-vy7"}'
        if "response_format" in asked and "json" in self.enforces:
            return text(word)
        if asked.get("tool_choice") == "required" and "calls" in self.enforces:
            return calls(("mark_zq", word))
        return text("Hello!")


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[str]:
    """The address of a server with this script."""
    async with serving(script) as url:
        yield url
