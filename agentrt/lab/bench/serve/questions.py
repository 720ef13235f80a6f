"""Chats of an exact number of prompt tokens, none of which begins like another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from agentrt.base.record import record
from agentrt.base.segments import Close, Open, Text
from agentrt.lab.errors import BenchFailed
from agentrt.lab.workloads.text import words_of
from agentrt.prompt import Codec


@record
class Question:
    """One chat completion.

    Attributes:
        token_ids: The prompt.
        fields: Body of its request.
    """

    token_ids: tuple[int, ...]
    fields: dict[str, Any]


class QuestionMaker:
    """Makes requests for a model.

    Args:
        model: Checkpoint directory.
        name: Name of the model in requests.
    """

    def __init__(self, model: Path, name: str) -> None:
        self._codec = Codec.load(model)
        self._words: Sequence[str] = words_of(model / "tokenizer.json")
        self._name = name

    def question(self, key: str, prompt_tokens: int, **fields: Any) -> Question:
        """A greedy request whose prompt has so many tokens.

        Args:
            key: Key of its text; another key gives another text.
            prompt_tokens: Tokens of the prompt, template included.
            fields: Further fields of its body.

        Raises:
            BenchFailed: The template does not let the prompt be so short.
        """
        words = Random(key).choices(self._words, k=prompt_tokens)
        spare = len(self._prompt(words)) - prompt_tokens
        if not 0 <= spare < prompt_tokens:
            raise BenchFailed(f"no prompt of this model has {prompt_tokens} tokens")
        words = words[spare:]
        body = {
            "model": self._name,
            "messages": [{"role": "user", "content": "".join(words)}],
            "temperature": 0,
            "ignore_eos": True,
        }
        return Question(self._prompt(words), {**body, **fields})

    def _prompt(self, words: Sequence[str]) -> tuple[int, ...]:
        chat = (Open("user"), Text("".join(words)), Close())
        return tuple(self._codec.encode((), chat).token_ids)
