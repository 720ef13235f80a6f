"""Prompt patterns: which prompt a program writes next, learned from its past runs.

The next prompt is predicted from what its program waits for: the call that has begun or ended last,
and the one before. Each such point has a `PromptModel`, as probable as its recent predictions.

Names and numbers alone are kept: of programs, call sites and arguments, and where in a run the
parts of a prompt are found. A text that the program writes every time is kept as a hash, and stored
for other processes only if it stands in the source of the program, which they have.

Pure: plain data goes in, plain data comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agentrt.base.segments import Segment
from agentrt.scheduler.estimates.call_model import MIN_PROBABILITY, MIN_TRIALS
from agentrt.scheduler.estimates.prompt_model import PlainForm, PromptGuess, PromptModel
from agentrt.scheduler.estimates.prompt_parts import KnownParts
from agentrt.scheduler.estimates.row import PROMPTS, EstimateRow

MAX_MODELS = 1024
MAX_STORED_CHARACTERS = 8000

PromptContext = tuple[str, str]
"""The program, and the last calls."""


class PromptPatterns:
    """Prompt models by context.

    Args:
        rows: Stored rows.

    Raises:
        ValueError: A row is malformed.
    """

    def __init__(self, rows: Iterable[EstimateRow] = ()) -> None:
        self._models: dict[PromptContext, PromptModel] = {}
        self._changed: dict[PromptContext, None] = {}
        for row in rows:
            self._store((row.template, row.site), PromptModel.of_sums(row.count, row.sums))

    def guess(self, context: PromptContext, known: KnownParts) -> PromptGuess | None:
        """The prompt that is likeliest next, however unlikely; None if nothing is known of it."""
        model = self._models.get(context)
        return None if model is None else model.guess(known)

    def learn(
        self,
        context: PromptContext,
        site: str,
        segments: Sequence[Segment],
        known: KnownParts,
        guess: PromptGuess | None,
        form: PlainForm | None = None,
    ) -> bool:
        """Learn from the prompt that came; see `PromptModel.learn`."""
        model = self._models.pop(context, None) or PromptModel()
        is_hit = model.learn(site, segments, known, guess, form)
        self._store(context, model)
        self._changed[context] = None
        return is_hit

    def changed_rows(self) -> list[EstimateRow]:
        """Storable part of the models that have learned since the last call."""
        changed = [context for context in self._changed if context in self._models]
        self._changed.clear()
        return [row for context in changed for row in _rows(context, self._models[context])]

    def _store(self, context: PromptContext, model: PromptModel) -> None:
        if len(self._models) >= MAX_MODELS:
            del self._models[next(iter(self._models))]
        self._models[context] = model


def _rows(context: PromptContext, model: PromptModel) -> Iterator[EstimateRow]:
    """A model as plain data; nothing if it is too large to store."""
    sums = model.to_sums()
    if sum(map(len, sums)) <= MAX_STORED_CHARACTERS:
        yield EstimateRow(*context, None, PROMPTS, model.count, sums)


def is_likely(guess: PromptGuess) -> bool:
    """Whether a guess is worth work ahead: often enough tried, and right every other time."""
    return guess.trials >= MIN_TRIALS and guess.probability >= MIN_PROBABILITY
