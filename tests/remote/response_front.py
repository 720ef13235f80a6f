"""OpenAI Responses over the engine of `server`: bodies become those of chat completions."""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def chat_body(body: Json) -> Json:
    """The same request as chat completions."""
    chat: Json = {"model": "tiny", "messages": [*_messages(body)]}
    chat |= {name: body[name] for name in ("temperature", "parallel_tool_calls") if name in body}
    chat["max_tokens"] = body.get("max_output_tokens")
    if "tools" in body:
        chat["tools"] = [{"type": "function", "function": tool} for tool in body["tools"]]
        choice = body.get("tool_choice", "auto")
        if isinstance(choice, dict):
            choice = {"type": "function", "function": {"name": choice["name"]}}
        chat["tool_choice"] = choice
    wanted = body.get("text", {}).get("format")
    if wanted is not None:
        chat["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return chat


def _messages(body: Json) -> Iterator[Json]:
    if "instructions" in body:
        yield {"role": "system", "content": body["instructions"]}
    for item in body["input"]:
        match item.get("type", "message"):
            case "message":
                yield {"role": item["role"], "content": item["content"]}
            case "function_call":
                function = {"name": item["name"], "arguments": item["arguments"]}
                call = {"id": item["call_id"], "function": function}
                yield {"role": "assistant", "content": "", "tool_calls": [call]}
            case "function_call_output":
                yield {"role": "tool", "content": item["output"], "tool_call_id": item["call_id"]}


class ResponseWriter:
    """Writes chunks of chat completions as events of a response."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.items: list[Json] = []
        self.reason = ""
        self.events = 0

    def opening(self) -> list[Json]:
        response = self._response("in_progress")
        return [
            self._event("response.created", response=response),
            self._event("response.in_progress", response=response),
        ]

    def of(self, chunk: Json) -> list[Json]:
        events: list[Json] = []
        for choice in chunk["choices"]:
            delta = choice["delta"]
            if content := delta.get("content"):
                if not self.items or self.items[-1]["type"] != "message":
                    events += self._begin({"type": "message", "role": "assistant", "content": []})
                at = {"output_index": len(self.items) - 1, "content_index": 0, "item_id": "i"}
                events.append(self._event("response.output_text.delta", delta=content, **at))
            for call in delta.get("tool_calls", ()):
                function = call["function"]
                if "id" in call:
                    item = {"type": "function_call", "call_id": call["id"], "arguments": ""}
                    events += self._begin(item | {"name": function["name"]})
                at = {"output_index": len(self.items) - 1, "item_id": "i"}
                kind = "response.function_call_arguments.delta"
                events.append(self._event(kind, delta=function["arguments"], **at))
            self.reason = choice["finish_reason"] or self.reason
        if usage := chunk.get("usage"):
            events += self._end(usage)
        return events

    def error(self, message: str) -> Json:
        return self._event("error", code="invalid_prompt", message=message, param=None)

    def _begin(self, item: Json) -> list[Json]:
        closing = self._close()
        self.items.append(item)
        at = len(self.items) - 1
        return [*closing, self._event("response.output_item.added", output_index=at, item=item)]

    def _close(self) -> list[Json]:
        if not self.items:
            return []
        at = len(self.items) - 1
        return [self._event("response.output_item.done", output_index=at, item=self.items[-1])]

    def _end(self, usage: Json) -> list[Json]:
        cut = self.reason == "length"
        response = self._response("incomplete" if cut else "completed")
        response["usage"] = {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": usage["prompt_tokens_details"],
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        response["incomplete_details"] = {"reason": "max_output_tokens"} if cut else None
        return [*self._close(), self._event(f"response.{response['status']}", response=response)]

    def _response(self, status: str) -> Json:
        return {"id": "resp_1", "object": "response", "status": status, "model": self.model}

    def _event(self, kind: str, **fields: Any) -> Json:
        self.events += 1
        return {"type": kind, "sequence_number": self.events - 1, **fields}
