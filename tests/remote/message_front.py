"""Anthropic Messages over the engine of `server`: bodies become those of chat completions."""

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

REASONS = {"length": "max_tokens", "tool_calls": "tool_use"}
CHOICES = {"any": "required", "auto": "auto", "none": "none"}


def chat_body(body: Json) -> Json:
    """The same request as chat completions."""
    chat: Json = {"model": "tiny", "messages": [*_messages(body)], "max_tokens": body["max_tokens"]}
    chat["stop"] = body.get("stop_sequences")
    chat["temperature"] = body.get("temperature", 1.0)
    if "tools" in body:
        chat["tools"] = [
            {"type": "function", "function": tool | {"parameters": tool["input_schema"]}}
            for tool in body["tools"]
        ]
        choice = body.get("tool_choice", {"type": "auto"})
        if choice["type"] == "tool":
            chat["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
        else:
            chat["tool_choice"] = CHOICES[choice["type"]]
        chat["parallel_tool_calls"] = not choice.get("disable_parallel_tool_use", False)
    if "output_config" in body:
        schema = body["output_config"]["format"]["schema"]
        chat["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    return chat


def _messages(body: Json) -> Iterator[Json]:
    if "system" in body:
        yield {"role": "system", "content": body["system"]}
    for turn in body["messages"]:
        texts = [block["text"] for block in turn["content"] if block["type"] == "text"]
        calls = [
            {
                "id": block["id"],
                "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
            }
            for block in turn["content"]
            if block["type"] == "tool_use"
        ]
        for block in turn["content"]:
            if block["type"] == "tool_result":
                content = block.get("content", "")
                yield {"role": "tool", "content": content, "tool_call_id": block["tool_use_id"]}
        if texts or calls:
            yield {"role": turn["role"], "content": "\n".join(texts), "tool_calls": calls}


class MessageWriter:
    """Writes chunks of chat completions as events of a message."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.blocks = 0
        self.kind = ""
        self.reason = ""
        self.stopped_by: str | None = None

    def opening(self) -> list[Json]:
        message: Json = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 1},
        }
        return [{"type": "message_start", "message": message}, {"type": "ping"}]

    def of(self, chunk: Json) -> list[Json]:
        events: list[Json] = []
        for choice in chunk["choices"]:
            delta = choice["delta"]
            if content := delta.get("content"):
                if self.kind != "text":
                    events += self._begin({"type": "text", "text": ""})
                events.append(self._delta({"type": "text_delta", "text": content}))
            for call in delta.get("tool_calls", ()):
                function = call["function"]
                if "id" in call:
                    block = {"type": "tool_use", "id": call["id"], "name": function["name"]}
                    events += self._begin(block | {"input": {}})
                    events.append(self._delta({"type": "input_json_delta", "partial_json": ""}))
                more = {"type": "input_json_delta", "partial_json": function["arguments"]}
                events.append(self._delta(more))
            if choice["finish_reason"]:
                self.stopped_by = choice["stop_reason"]
                self.reason = REASONS.get(choice["finish_reason"], "end_turn")
        if usage := chunk.get("usage"):
            events += [*self._close(), *self._end(usage)]
        return events

    def error(self, message: str) -> Json:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}

    def _begin(self, block: Json) -> list[Json]:
        closing = self._close()
        self.kind = block["type"]
        start = {"type": "content_block_start", "index": self.blocks, "content_block": block}
        return [*closing, start]

    def _close(self) -> list[Json]:
        if not self.kind:
            return []
        self.kind, self.blocks = "", self.blocks + 1
        return [{"type": "content_block_stop", "index": self.blocks - 1}]

    def _delta(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "index": self.blocks, "delta": delta}

    def _end(self, usage: Json) -> list[Json]:
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        counts = {
            "input_tokens": max(0, usage["prompt_tokens"] - cached),
            "cache_read_input_tokens": cached,
            "output_tokens": usage["completion_tokens"],
        }
        reason = "stop_sequence" if self.stopped_by else self.reason
        delta = {"stop_reason": reason, "stop_sequence": self.stopped_by}
        last = {"type": "message_delta", "delta": delta, "usage": counts}
        return [last, {"type": "message_stop"}]
