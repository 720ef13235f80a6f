"""Chunks of a streamed chat completion, parsed into text, tool calls and usage (streaming).

The API sends tool calls separately from the text; here they are written into it in
`JSON_ARRAY_FRAME`. Reasoning is not part of the answer, whether it is reported separately or stands
in `<think>` at the beginning of the text.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agentrt.base.errors import AnswerRefused, EngineDied, RequestRejected
from agentrt.base.segments import JSON_ARRAY_FRAME as FRAME
from agentrt.protocol.step_output import FinishReason
from agentrt.remote.think_tag import ThinkTag

Json = dict[str, Any]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON may write one; no UTF-8 holds it


class ChunkReader:
    """Parser of the chunks of one request.

    Args:
        max_calls: Maximum number of calls; 0 sets no limit.
        by_call: Whether the answer is the arguments of the first call; if there is none, the text.

    Attributes:
        usage: Token counts reported by the server.
        timings: Timings reported by the server (vLLM, llama.cpp), if any.
        finish: Finish reason; None before the end.
        stopped_by: The stop string that ended it, if the server reports it (vLLM), else "".
        chunks: Number of chunks with text or reasoning.
        reasoning_chunks: Number of chunks with reasoning.
        calls: Number of calls begun.
        max_calls: Maximum number of calls; 0 sets no limit.
        full: Whether the maximum is reached: the rest is dropped.
        failed: Whether the server has sent an error.
    """

    def __init__(self, max_calls: int = 0, *, by_call: bool = False) -> None:
        self.usage: Json = {}
        self.timings: Json = {}
        self.finish: FinishReason | None = None
        self.stopped_by = ""
        self.chunks = 0
        self.reasoning_chunks = 0
        self.calls = 0
        self.full = False
        self.failed = False
        self.max_calls = max_calls
        self._index: int | None = None
        self._call_id = ""
        self._bare = False
        self._by_call = by_call
        self._refusal = ""
        self._beside: list[str] = []
        self._tag = ThinkTag()
        self._reasoning: list[str] = []

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
        thoughts = len(self._reasoning)
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            if thought := delta.get("reasoning_content") or delta.get("reasoning"):
                self._reasoning.append(thought)
            self._refusal += delta.get("refusal") or ""
            text += self._content(delta.get("content") or "")
            for call in delta.get("tool_calls") or ():
                text += self._call(call)
            if choice.get("finish_reason"):
                text += self._finished(choice["finish_reason"])
                self.stopped_by = _text(choice.get("stop_reason"))
        has_thought = len(self._reasoning) > thoughts
        self.reasoning_chunks += has_thought
        self.chunks += bool(text) or has_thought
        return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)

    def close(self, *, cut: bool = False) -> str:
        """Text that closes open calls, and text that was held back.

        Args:
            cut: Whether a limit has ended the answer, so that an open call stays open.
        """
        if self._by_call:
            beside, self._beside = self._beside, []
            return "".join(beside) if not self.calls else ""
        rest = self._tag.flush()
        if self._tag.thought:
            self._reasoning.append(self._tag.take_thought())
        if self._index is None or cut:
            return rest
        self._index = None
        return self._close_call() + FRAME.last + rest

    def take_reasoning(self) -> str:
        """The reasoning since the last time."""
        taken, self._reasoning = "".join(self._reasoning), []
        return taken

    def _content(self, text: str) -> str:
        if not text or self.full:
            return ""
        answer = self._tag.feed_text(text)
        if self._tag.thought:
            self._reasoning.append(self._tag.take_thought())
        if self._by_call:
            self._beside.append(answer)
            return ""
        if not answer:
            return ""
        if self._index is None:
            return answer
        self._index = None
        return self._close_call() + FRAME.last + answer

    def _call(self, call: Json) -> str:
        """One delta of one call: its name opens it, its arguments follow piece by piece."""
        function = call.get("function") or {}
        index = self.calls if call.get("index") is None else call["index"]
        call_id = _text(call.get("id"))
        is_other = bool(call_id and self._call_id and call_id != self._call_id)
        self._call_id = call_id or self._call_id
        text = ""
        if index != self._index or is_other:
            if self.max_calls and self.calls >= self.max_calls:
                self.full = True
            if self.full:
                return ""
            if self._by_call:
                self.full = self.calls > 0
                self._index, self.calls = index, 1
                return "" if self.full else _arguments(function.get("arguments"))
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
            raise AnswerRefused("the engine filtered its own answer")
        if self._refusal:
            shown = " ".join(self._refusal.split())[:200]
            raise AnswerRefused(f"the model refuses: {shown}")
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
