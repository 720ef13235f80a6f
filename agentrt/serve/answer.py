"""A chat completion in the API's form: in one piece, or as the chunks of a stream."""

from __future__ import annotations

from typing import Any

from agentrt.base.segments import CallFrame, ToolSchema
from agentrt.program import GenMeta
from agentrt.serve.answer_figures import figures
from agentrt.serve.answer_logprobs import LogprobForm, NewTokens
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
        logprobs: Form of the log-probabilities, if the answer has them.
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
        logprobs: LogprobForm | None = None,
    ) -> None:
        self._name = name
        self._model = model
        self._created = created
        self._scanner = None if calls_in == "none" else CallScanner(frame, tools)
        self._prompt_ids = prompt_ids
        self._logprobs = logprobs
        self._untold = NewTokens()
        self._told_chars = 0
        self._calls: list[Json] = []

    def opening(self) -> list[Json]:
        """The first chunk of a stream."""
        first = self._chunk([self._choice({"role": "assistant", "content": ""})])
        return [first | self._prompt_field()]

    def chunks(self, text: str, tokens: NewTokens) -> list[Json]:
        """Chunks for more text, and the tokens since the last call; the first one has them all."""
        self._add(tokens)
        content, calls = self._read(text)
        found = [self._chunk([self._choice({"content": content})])] if content else []
        for index, call in enumerate(calls, len(self._calls) - len(calls)):
            found.append(self._chunk([self._choice({"tool_calls": [{"index": index, **call}]})]))
        return found

    def closing(self, meta: GenMeta, tokens: NewTokens, *, usage: bool) -> list[Json]:
        """The last chunks of a stream, with the rest of the tokens."""
        self._add(tokens)
        rest = self._flush()
        found = [self._chunk([self._choice({"content": rest})])] if rest else []
        reason = self._reason(meta)
        last = self._choice({}, reason, meta.stopped_by or None) | tokens.score_fields
        found.append(self._chunk([last]))
        if usage:
            found.append({**self._chunk([]), **figures(meta.ledger)})
        return found

    def whole(self, text: str, meta: GenMeta, tokens: NewTokens) -> Json:
        """The answer in one piece."""
        content, _ = self._read(text)
        content += self._flush()
        message: Json = {"role": "assistant", "content": content, "refusal": None}
        if self._calls:
            message |= {"content": content or None, "tool_calls": self._calls}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": self._logprobs and self._logprobs.of_chat(tokens.logprobs),
            "finish_reason": self._reason(meta),
            "stop_reason": meta.stopped_by or None,
        }
        if self._prompt_ids is not None:
            choice["token_ids"] = list(tokens.ids)
        choice |= tokens.score_fields
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
        tokens, self._untold = self._untold, NewTokens()
        if self._logprobs is not None and tokens.logprobs:
            choice["logprobs"] = self._logprobs.of_chat(tokens.logprobs)
        if self._prompt_ids is not None:
            choice["token_ids"] = list(tokens.ids)
        return choice | {"stop_reason": stop} if stop else choice

    def _add(self, tokens: NewTokens) -> None:
        untold = self._untold
        self._untold = NewTokens(untold.ids + tokens.ids, untold.logprobs + tokens.logprobs)

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
