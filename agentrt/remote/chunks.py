"""Chunks of a streamed chat completion, parsed into text, tool calls and usage (streaming).

The API sends tool calls separately from the text; here they are written into it in
`JSON_ARRAY_FRAME`. Reasoning that a server reports separately is not part of the answer.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agentrt.base.errors import EngineDied, RequestRejected
from agentrt.base.segments import JSON_ARRAY_FRAME as FRAME
from agentrt.protocol.step_output import FinishReason

Json = dict[str, Any]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON may write one; no UTF-8 holds it


class ChunkReader:
    """Parser of the chunks of one request.

    Attributes:
        usage: Token counts reported by the server.
        timings: Timings reported by the server (vLLM, llama.cpp), if any.
        finish: Finish reason; None before the end.
        stopped_by: The stop string that ended it, if the server reports it (vLLM), else "".
        chunks: Number of chunks with text.
        calls: Number of calls begun.
        max_calls: Maximum number of calls; 0 sets no limit.
        full: Whether the maximum is reached: the rest is dropped.
        failed: Whether the server has sent an error.
    """

    def __init__(self, max_calls: int = 0) -> None:
        self.usage: Json = {}
        self.timings: Json = {}
        self.finish: FinishReason | None = None
        self.stopped_by = ""
        self.chunks = 0
        self.calls = 0
        self.full = False
        self.failed = False
        self.max_calls = max_calls
        self._index: int | None = None
        self._bare = False

    def feed_chunk(self, chunk: Json) -> str:
        """Text added by `chunk`.

        Raises:
            EngineDied: The chunk is an error of the server.
            RequestRejected: The chunk is an error of the request, or the answer was filtered.
        """
        if error := chunk.get("error"):
            self.failed = True
            kind = EngineDied if _is_of_server(error) else RequestRejected
            raise kind(f"the engine failed in the middle: {_message_of(error)}")
        self.usage = chunk.get("usage") or self.usage
        self.timings = chunk.get("timings") or chunk.get("metrics") or self.timings
        text = ""
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            text += self._content(delta.get("content") or "")
            for call in delta.get("tool_calls") or ():
                text += self._call(call)
            if choice.get("finish_reason"):
                text += self._finished(choice["finish_reason"])
                self.stopped_by = _text(choice.get("stop_reason"))
        self.chunks += bool(text)
        return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)

    def close(self) -> str:
        """Text that closes open calls."""
        if self._index is None:
            return ""
        self._index = None
        return self._close_call() + FRAME.last

    def _content(self, text: str) -> str:
        if not text or self.full:
            return ""
        return self.close() + text

    def _call(self, call: Json) -> str:
        """One delta of one call: its name opens it, its arguments follow piece by piece."""
        function = call.get("function") or {}
        index = self.calls if call.get("index") is None else call["index"]
        text = ""
        if index != self._index:
            if self.max_calls and self.calls >= self.max_calls:
                self.full = True
            if self.full:
                return ""
            text = FRAME.first if self._index is None else self._close_call() + FRAME.between
            name = json.dumps(function.get("name") or "", ensure_ascii=False)[1:-1]
            text += FRAME.before + name + FRAME.middle
            self._index, self._bare = index, True
            self.calls += 1
        arguments = _arguments(function.get("arguments"))
        self._bare = self._bare and not arguments
        return text + arguments

    def _close_call(self) -> str:
        return ("{}" if self._bare else "") + FRAME.after

    def _finished(self, reason: str) -> str:
        if reason == "content_filter":
            raise RequestRejected("the engine filtered its own answer", hint="Reword the prompt")
        self.finish = "length" if reason == "length" else "stop"
        return self.close() if self.finish == "stop" else ""


def _arguments(value: Any) -> str:
    """Arguments as JSON text; a few servers send the object itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_of_server(error: Any) -> bool:
    """Whether an error is the server's own, so that the same request may pass later."""
    if not isinstance(error, dict):
        return False
    code = error.get("code")
    if isinstance(code, int):
        return code >= 500 or code in (408, 429)
    return _text(error.get("type")).replace("_", "").lower() in _SERVER_TYPES


_SERVER_TYPES = ("servererror", "internalservererror", "serviceunavailableerror")


def _message_of(error: Any) -> str:
    message = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(message).split())[:300]


class JsonCompactor:
    """Drops the white space between the tokens of a JSON text, piece by piece."""

    def __init__(self) -> None:
        self._inside = False
        self._escaped = False

    def feed_text(self, text: str) -> str:
        """`text` without the white space outside strings."""
        kept: list[str] = []
        for char in text:
            if self._inside:
                self._inside = self._escaped or char != '"'
                self._escaped = char == "\\" and not self._escaped
            elif char in " \t\r\n":
                continue
            else:
                self._inside = char == '"'
            kept.append(char)
        return "".join(kept)
