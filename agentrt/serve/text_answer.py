"""A completion in the API's form: in one piece, or as the chunks of a stream."""

from __future__ import annotations

from typing import Any

from agentrt.program import GenMeta
from agentrt.serve.answer_figures import figures
from agentrt.serve.answer_logprobs import LogprobForm, NewTokens

Json = dict[str, Any]


class TextAnswer:
    """One completion while it comes.

    Args:
        name: Id of the completion.
        model: Name of the model.
        created: Seconds since 1970.
        prompt_ids: Ids of the prompt, if the answer has them.
        logprobs: Form of the log-probabilities, if the answer has them.
    """

    def __init__(
        self,
        name: str,
        model: str,
        created: int,
        prompt_ids: tuple[int, ...] | None = None,
        logprobs: LogprobForm | None = None,
    ) -> None:
        self._name = name
        self._model = model
        self._created = created
        self._prompt_ids = prompt_ids
        self._logprobs = logprobs

    def opening(self) -> list[Json]:
        """No chunk: the first one has text."""
        return []

    def chunks(self, text: str, tokens: NewTokens) -> list[Json]:
        """The chunk for more text, with the tokens since the last one."""
        return [self._chunk([self._choice(text, tokens)])] if text or tokens.ids else []

    def closing(self, meta: GenMeta, tokens: NewTokens, *, usage: bool) -> list[Json]:
        """The last chunks of a stream, with the rest of the tokens."""
        found = [self._chunk([self._choice("", tokens, meta)])]
        if usage:
            found.append({**self._chunk([]), **figures(meta.ledger)})
        return found

    def whole(self, text: str, meta: GenMeta, tokens: NewTokens) -> Json:
        """The completion in one piece."""
        return {**self._chunk([self._choice(text, tokens, meta)]), **figures(meta.ledger)}

    def _choice(self, text: str, tokens: NewTokens, meta: GenMeta | None = None) -> Json:
        choice: Json = {"index": 0, "text": text, "logprobs": None, "finish_reason": None}
        if self._logprobs is not None:
            choice["logprobs"] = self._logprobs.of_text(tokens.logprobs)
        if meta is not None:
            choice |= {"finish_reason": meta.finish_reason, "stop_reason": meta.stopped_by or None}
            choice |= tokens.score_fields
        if self._prompt_ids is not None:
            choice["token_ids"] = list(tokens.ids)
            if self._prompt_ids:
                choice["prompt_token_ids"], self._prompt_ids = list(self._prompt_ids), ()
        return choice

    def _chunk(self, choices: list[Json]) -> Json:
        return {
            "id": self._name,
            "object": "text_completion",
            "created": self._created,
            "model": self._model,
            "system_fingerprint": "agentrt",
            "choices": choices,
        }
