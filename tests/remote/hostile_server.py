"""A small server on the loopback whose every byte a test chooses."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

Answer = Callable[[str, bytes, asyncio.StreamWriter], Awaitable[None]]
"""Writes the answer to a path and a body."""

MODELS = json.dumps({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 512}]}).encode()
DONE = b"data: [DONE]\n\n"


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def content(text: str, finish: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def message(text: str, reason: str = "end_turn") -> list[dict[str, object]]:
    """Events of a message of Anthropic's API."""
    delta = {"type": "text_delta", "text": text}
    return [
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


WHOLE_MESSAGE = b"".join(map(event, message("there")))
WHOLE = event(content("there")) + event(content("", "stop")) + DONE


def head(status: str = "200 OK", kind: str = "text/event-stream", more: str = "") -> bytes:
    lines = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n"
    return lines.encode()


class Script:
    """Answers of chat completions in turn; the last one is repeated.

    Args:
        answers: Raw bytes of each, its head included; None never answers.
        models: The list of models; None never answers.
    """

    def __init__(self, answers: Sequence[bytes | None], models: bytes | None = MODELS) -> None:
        self.answers = list(answers)
        self.models = models
        self.asked = 0
        self.opened = False

    async def __call__(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if path.endswith("/models"):
            answer = None if self.models is None else head(kind="application/json") + self.models
        elif not self.opened:
            answer = head() + WHOLE  # to the probes of the opening
        else:
            answer = self.answers[min(self.asked, len(self.answers) - 1)]
            self.asked += 1
        if answer is None:
            await asyncio.Event().wait()
        else:
            writer.write(answer)
            await writer.drain()


@asynccontextmanager
async def serving(answer: Answer, *, doors: bool = False) -> AsyncIterator[str]:
    """The address of a server that answers so; with `doors` also beside the API."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here = asyncio.current_task()
        assert here is not None
        tasks.add(here)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            request = await reader.readuntil(b"\r\n\r\n")
            lines = request.decode().split("\r\n")
            sizes = [x.split(":")[1] for x in lines if x.lower().startswith("content-length:")]
            body = await reader.readexactly(int(sizes[0])) if sizes else b""
            path = lines[0].split()[1]
            if path.startswith("/v1/") or doors:
                await answer(path, body, writer)
            else:
                writer.write(head("404 Not Found"))
        writer.close()
        with suppress(ConnectionError, asyncio.CancelledError):
            await writer.wait_closed()
        tasks.discard(here)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
