"""A server of chat completions in front of OpenVINO GenAI's continuous batching.

Runs in OpenVINO's own environment. The package has a pipeline and no server, so this is the least
that one needs: a thread takes steps as long as there are requests, after each step every request
gets its new tokens, and one whose client has left is cancelled. Chats become tokens by the model's
own template and `tokenizer.json`, outside of that thread.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import openvino
import openvino_genai as genai
import uvicorn
from openvino_pipeline import open_pipeline, unread_tokens
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from tokenizers import Tokenizer

Json = dict[str, Any]
_NGRAM = 3


class Chats:
    """Turns chats into tokens, and tokens into text."""

    def __init__(self, model: Path) -> None:
        settings = json.loads((model / "tokenizer_config.json").read_text("utf-8"))
        template = settings.get("chat_template")
        if template is None:
            template = (model / "chat_template.jinja").read_text("utf-8")
        self._template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(
            template
        )
        self._named = {name: settings.get(name) for name in ("bos_token", "eos_token")}
        self._tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))

    def ids(self, messages: list[Json]) -> list[int]:
        """Token ids of a chat and of the beginning of its answer."""
        text = self._template.render(messages=messages, add_generation_prompt=True, **self._named)
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def text(self, ids: list[int]) -> str:
        """The text of an answer, without special tokens."""
        found: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return found


class Failed(Exception):
    """The pipeline refused a request, or failed."""


class Answer:
    """A request under way.

    Attributes:
        handle: The pipeline's handle of it.
        pieces: New tokens, a list after each step in which there were some; None ends them, and a
            failure does.
    """

    def __init__(self, handle: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.handle = handle
        self.pieces: asyncio.Queue[list[int] | Failed | None] = asyncio.Queue()
        self._loop = loop

    def take(self) -> bool:
        """Take what a step has written; returns True if the request has ended."""
        new = unread_tokens(self.handle)
        if new:
            self._put(new)
        status = self.handle.get_status()
        if status == genai.GenerationStatus.IGNORED:
            self.fail("the pipeline has no room for this request")
        elif status != genai.GenerationStatus.RUNNING:
            self._put(None)
        ended: bool = status != genai.GenerationStatus.RUNNING
        return ended

    def fail(self, why: str) -> None:
        """End the request with a failure."""
        self._put(Failed(why))

    async def tokens(self) -> AsyncIterator[list[int]]:
        """New tokens until the end.

        Raises:
            Failed: The request was refused, or the pipeline failed.
        """
        while (piece := await self.pieces.get()) is not None:
            if isinstance(piece, Failed):
                raise piece
            yield piece

    def _put(self, piece: list[int] | Failed | None) -> None:
        self._loop.call_soon_threadsafe(self.pieces.put_nowait, piece)


class Engine:
    """The pipeline, and the thread that takes its steps."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._lookup_tokens: int = args.lookup_tokens
        self._pipeline = open_pipeline(
            args.gguf,
            dtype=args.dtype,
            threads=args.threads,
            kv_tokens=args.kv_tokens,
            prompts_alone=args.prompts_alone,
            lookup=bool(args.lookup_tokens),
        )
        self._work = threading.Condition()
        self._under_way: list[Answer] = []
        self._requests = 0
        self.steps = 0
        threading.Thread(target=self._run, name="steps", daemon=True).start()

    def begin(self, ids: list[int], body: Json) -> Answer:
        """Begin a request.

        Args:
            ids: Token ids of its prompt.
            body: Fields of the request.
        """
        config = genai.GenerationConfig()
        config.max_new_tokens = body.get("max_tokens") or body["max_completion_tokens"]
        config.ignore_eos = bool(body.get("ignore_eos"))
        config.apply_chat_template = False
        form = body.get("structured_outputs")
        if form:
            config.structured_output_config = genai.StructuredOutputConfig(regex=form["regex"])
        if self._lookup_tokens:
            config.num_assistant_tokens = self._lookup_tokens
            config.max_ngram_size = _NGRAM
        prompt = openvino.Tensor(np.array([ids], dtype=np.int64))
        with self._work:
            self._requests += 1
            handle = self._pipeline.add_request(self._requests, prompt, config)
            answer = Answer(handle, asyncio.get_running_loop())
            self._under_way.append(answer)
            self._work.notify()
        return answer

    def _run(self) -> None:
        """Take steps while there are requests."""
        while True:
            with self._work:
                self._work.wait_for(lambda: self._under_way)
            try:
                self._pipeline.step()
            except RuntimeError as error:
                with self._work:
                    for one in self._under_way:
                        one.fail(str(error))
                    self._under_way = []
                continue
            self.steps += 1
            with self._work:
                self._under_way = [one for one in self._under_way if not one.take()]


class Service:
    """The routes."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._name = args.name
        self._chats = Chats(Path(args.model))
        self._engine = Engine(args)

    def routes(self) -> list[Route]:
        """The routes of the application."""
        return [
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/v1/chat/completions", self.complete, methods=["POST"]),
        ]

    async def health(self, request: Request) -> Response:
        """Answer as soon as the model is loaded."""
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        """Count steps."""
        return PlainTextResponse(f"openvino_steps {self._engine.steps}\n")

    async def complete(self, request: Request) -> Response:
        """Answer a chat."""
        body = await request.json()
        ids = self._chats.ids(body["messages"])
        answer = self._engine.begin(ids, body)
        if body.get("stream"):
            return StreamingResponse(self._events(answer, len(ids)), media_type="text/event-stream")
        written = asyncio.create_task(self._whole(answer))
        left = asyncio.create_task(_left(request))
        await asyncio.wait({written, left}, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        if not written.done():
            answer.handle.cancel()
            written.cancel()
            return Response(status_code=499)
        try:
            output = written.result()
        except Failed as error:
            return JSONResponse({"error": {"message": str(error)}}, status_code=400)
        message = {"role": "assistant", "content": self._chats.text(output)}
        choice = {"index": 0, "message": message, "finish_reason": "length"}
        usage = _usage(len(ids), len(output))
        return JSONResponse(self._answer("chat.completion", [choice], usage))

    async def _whole(self, answer: Answer) -> list[int]:
        return [token async for piece in answer.tokens() for token in piece]

    async def _events(self, answer: Answer, prompt_tokens: int) -> AsyncIterator[str]:
        output: list[int] = []
        sent = ""
        try:
            async for piece in answer.tokens():
                output += piece
                text = self._chats.text(output)
                if not text.endswith(
                    "\N{REPLACEMENT CHARACTER}"
                ):  # of a character that is half there
                    delta = {"index": 0, "delta": {"content": text[len(sent) :]}}
                    sent = text
                    yield self._event([delta])
            yield self._event([], _usage(prompt_tokens, len(output)))
            yield "data: [DONE]\n\n"
        except Failed as error:
            yield f"data: {json.dumps({'error': {'message': str(error)}})}\n\n"
        finally:
            answer.handle.cancel()  # nothing if it has ended

    def _event(self, choices: list[Json], usage: Json | None = None) -> str:
        return f"data: {json.dumps(self._answer('chat.completion.chunk', choices, usage))}\n\n"

    def _answer(self, kind: str, choices: list[Json], usage: Json | None) -> Json:
        return {"object": kind, "model": self._name, "choices": choices, "usage": usage}


async def _left(request: Request) -> None:
    """Wait until the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _usage(prompt_tokens: int, output_tokens: int) -> Json:
    return {"prompt_tokens": prompt_tokens, "completion_tokens": output_tokens}


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    for name in ("model", "gguf", "name", "dtype"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("port", "threads", "kv-tokens"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--prompts-alone", action="store_true")
    parser.add_argument("--lookup-tokens", type=int, default=0)
    args = parser.parse_args()
    app = Starlette(routes=Service(args).routes())
    uvicorn.run(app, host="127.0.0.1", port=args.port, log_level="error", access_log=False)


if __name__ == "__main__":
    main()
