"""A chat completion in the API's form: in one piece, or as the chunks of a stream."""

from __future__ import annotations

from typing import Any

from agentrt.base.segments import CallFrame, ToolSchema
from agentrt.program import GenMeta
from agentrt.serve.answer_figures import figures
from agentrt.serve.request_builder import CallsIn
from agentrt.structured import CallScanner, CallText

Json = dict[str, Any]


class ChatAnswer:
    """One answer while it comes.

    Args:
        name: Id of the answer.
        model: Name of the model.
        created: Seconds since 1970.
        calls_in: Places of tool calls in the text.
        frame: Form in which the model writes calls.
        tools: The tools offered.
        prompt_ids: Ids of the prompt, if the answer has them.
    """

    def __init__(
        self,
        name: str,
        model: str,
        created: int,
        calls_in: CallsIn,
        frame: CallFrame,
        tools: tuple[ToolSchema, ...],
        prompt_ids: tuple[int, ...] | None = None,
    ) -> None:
        self._name = name
        self._model = model
        self._created = created
        self._scanner = None if calls_in == "none" else CallScanner(frame, tools)
        self._prompt_ids = prompt_ids
        self._untold_ids: list[int] = []
        self._told_chars = 0
        self._calls: list[Json] = []

    def opening(self) -> list[Json]:
        """The first chunk of a stream."""
        first = self._chunk([self._choice({"role": "assistant", "content": ""})])
        return [first | self._prompt_field()]

    def chunks(self, text: str, ids: list[int]) -> list[Json]:
        """Chunks for more text, and the ids since the last call; the first chunk has all ids."""
        self._untold_ids += ids
        content, calls = self._read(text)
        found = [self._chunk([self._choice({"content": content})])] if content else []
        for index, call in enumerate(calls, len(self._calls) - len(calls)):
            found.append(self._chunk([self._choice({"tool_calls": [{"index": index, **call}]})]))
        return found

    def closing(self, meta: GenMeta, ids: list[int], *, usage: bool) -> list[Json]:
        """The last chunks of a stream, with the rest of the ids."""
        self._untold_ids += ids
        rest = self._flush()
        found = [self._chunk([self._choice({"content": rest})])] if rest else []
        reason = self._reason(meta)
        found.append(self._chunk([self._choice({}, reason, meta.stopped_by or None)]))
        if usage:
            found.append({**self._chunk([]), **figures(meta.ledger)})
        return found

    def whole(self, text: str, meta: GenMeta, ids: list[int]) -> Json:
        """The answer in one piece."""
        content, _ = self._read(text)
        content += self._flush()
        message: Json = {"role": "assistant", "content": content, "refusal": None}
        if self._calls:
            message |= {"content": content or None, "tool_calls": self._calls}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._reason(meta),
            "stop_reason": meta.stopped_by or None,
        }
        if self._prompt_ids is not None:
            choice["token_ids"] = ids
        head = {**self._chunk([choice]), "object": "chat.completion"}
        return {**head, **figures(meta.ledger), **self._prompt_field()}

    def _read(self, text: str) -> tuple[str, list[Json]]:
        """The content and the calls that more text brings."""
        if self._scanner is None:
            return text, []
        calls = [self._call(one) for one in self._scanner.feed_text(text)]
        return self._fresh(self._scanner.content), calls

    def _flush(self) -> str:
        return "" if self._scanner is None else self._fresh(self._scanner.end_text())

    def _fresh(self, content: str) -> str:
        """The part of the content that has not been sent yet."""
        told, self._told_chars = self._told_chars, len(content)
        return content[told:]

    def _call(self, found: CallText) -> Json:
        function = {"name": found.name, "arguments": found.arguments_json}
        call_id = f"call_{self._name[-6:]}{len(self._calls)}"
        call = {"id": call_id, "type": "function", "function": function}
        self._calls.append(call)
        return call

    def _reason(self, meta: GenMeta) -> str:
        is_calls = self._calls and meta.finish_reason == "stop"
        return "tool_calls" if is_calls else meta.finish_reason

    def _choice(self, delta: Json, reason: str | None = None, stop: str | None = None) -> Json:
        choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        if self._prompt_ids is not None:
            choice["token_ids"], self._untold_ids = self._untold_ids, []
        return choice | {"stop_reason": stop} if stop else choice

    def _prompt_field(self) -> Json:
        ids = self._prompt_ids
        return {} if ids is None else {"prompt_token_ids": list(ids)}

    def _chunk(self, choices: list[Json]) -> Json:
        return {
            "id": self._name,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "system_fingerprint": "agentrt",
            "choices": choices,
        }
