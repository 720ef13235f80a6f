"""Call patterns: which tool a program calls next, and with which arguments.

The next call is predicted from its context: the last two tools that ended and how, and the number
of calls made since. Its arguments are found in these and in the arguments of the program. Each
context has a `CallModel`, as probable as its recent predictions.

Only names and numbers are stored for other processes: of programs, tools and arguments, and at
which names and positions an argument was found in earlier calls. No argument and no result is
stored, except for arguments named in the tool's own signature, and true, false or null. Other
constants are known again after one call.

Pure: plain data goes in, plain data comes out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from agentrt.scheduler.estimates.call_model import (
    MIN_PROBABILITY,
    MIN_TRIALS,
    CallGuess,
    CallModel,
    EndedCall,
)
from agentrt.scheduler.estimates.row import CALLS, NEGLIGIBLE, EstimateRow
from agentrt.scheduler.estimates.trail import Trail, trail_in, trail_name

MAX_MODELS = 1024
MAX_STORED_ORIGINS = 4
"""Limit for one argument."""

MAX_STORED_CHARACTERS = 4000
MAX_NAME_CHARACTERS = 64

CallContext = tuple[str, str, int]
"""The program, the last calls (spelled by `context_of`), and the number of calls made since."""


class CallPatterns:
    """Call models by context.

    Args:
        rows: Stored rows.

    Raises:
        ValueError: A row is malformed.
    """

    def __init__(self, rows: Iterable[EstimateRow] = ()) -> None:
        self._models: dict[CallContext, CallModel] = {}
        self._changed: dict[CallContext, None] = {}
        for row in rows:
            self._store((row.template, row.site, row.depth or 0), _model_of(row))

    def learn_call(
        self,
        program: str,
        before: tuple[EndedCall, ...],
        index: int,
        tool: str,
        arguments: Mapping[str, Any],
        public: Collection[str] = (),
    ) -> None:
        """Learn from a call.

        Args:
            program: Program that the run started.
            before: The last two calls that had ended, the latest first, then that of the program.
            index: Number of calls made since.
            tool: Tool that was called.
            arguments: Arguments as plain data.
            public: Arguments without secret values, as named in the tool's signature.
        """
        context = (program, context_of(before), index)
        model = self._models.pop(context, None) or CallModel()
        model.learn_call(tool, arguments, before, public)
        self._store(context, model)
        self._changed[context] = None

    def learn_end(self, program: str, before: tuple[EndedCall, ...], index: int) -> None:
        """Learn that a program has ended without another call; see `learn_call`."""
        context = (program, context_of(before), index)
        model = self._models.pop(context, None)
        if model is not None and model.learn_end():
            self._store(context, model)
            self._changed[context] = None

    def guesses(self, program: str, before: tuple[EndedCall, ...]) -> Iterator[CallGuess]:
        """Likely next calls, in order."""
        index, context = 0, context_of(before)
        while (model := self._models.get((program, context, index))) is not None:
            index += 1
            trials = model.count - 1
            if trials < MIN_TRIALS or model.probability < MIN_PROBABILITY:
                continue
            arguments = model.arguments(before)
            if arguments is not None:
                yield CallGuess(model.tool, arguments, model.probability, trials)

    def models(self) -> Iterator[tuple[CallContext, CallModel]]:
        """All models, the latest used ones last."""
        yield from self._models.items()

    def rows(self) -> list[EstimateRow]:
        """Storable part of all models."""
        return [row for context, model in self._models.items() for row in _rows(context, model)]

    def changed_rows(self) -> list[EstimateRow]:
        """Storable part of the models that have learned since the last call."""
        changed = [context for context in self._changed if context in self._models]
        self._changed.clear()
        return [row for context in changed for row in _rows(context, self._models[context])]

    def _store(self, context: CallContext, model: CallModel) -> None:
        if len(self._models) >= MAX_MODELS:
            del self._models[next(iter(self._models))]
        self._models[context] = model


def context_of(before: tuple[EndedCall, ...]) -> str:
    """Spelling of the last calls, latest first, and a key: `fetch < search failed`.

    The call of the program itself has no name.
    """
    return " < ".join(one.tool if one.ok else f"{one.tool} failed" for one in before if one.tool)


def _rows(context: CallContext, model: CallModel) -> Iterator[EstimateRow]:
    """A model as plain data; nothing if it is too large to store."""
    sums = {trail_name(trail): weight for trail, weight in _storable_trails(model)}
    if sum(map(len, sums)) <= MAX_STORED_CHARACTERS:
        program, before, index = context
        sums |= {"tried": model.predictable, "hits": model.hits}
        yield EstimateRow(program, before, index, CALLS, model.count, sums)


def _storable_trails(model: CallModel) -> Iterator[tuple[Trail, float]]:
    """Tools and arguments, and the origins that explain most of the calls."""
    for trail, weight in model.trails.items():
        if any(isinstance(part, str) and len(part) > MAX_NAME_CHARACTERS for part in trail):
            continue
        if len(trail) <= 2:
            yield trail, weight
        if len(trail) == 2:
            found = [
                (origin, explained)
                for origin, explained in model.origins(trail, 0)
                if 2.0 * explained > weight and (origin[2] != "always" or origin in model.public)
            ]
            yield from sorted(found, key=lambda one: -one[1])[:MAX_STORED_ORIGINS]


def _model_of(row: EstimateRow) -> CallModel:
    model = CallModel()
    model.count = row.count
    model.predictable, model.hits = (
        max(0.0, row.sums.get(name, 0.0)) for name in ("tried", "hits")
    )
    for name, weight in row.sums.items():
        if name in ("tried", "hits") or weight <= NEGLIGIBLE:
            continue
        trail = _trail_of(name)
        model.trails[trail] = weight
        if trail[2:3] == ("always",):
            model.public.add(trail)
    if not any(len(trail) == 1 for trail in model.trails):
        raise ValueError(f"what is kept of calls after {row.site!r} names no tool")
    return model


def _trail_of(name: str) -> Trail:
    """Raises `ValueError` if it is none."""
    trail = trail_in(name)
    head, origin = trail[:2], list(trail[2:])
    if not trail or not all(isinstance(part, str) for part in head):
        raise ValueError(f"{name!r} is no way to an argument")
    if origin[:1] == ["always"] and len(origin) == 2 and isinstance(origin[1], str):
        json.loads(origin[1])
        return trail
    is_place = (
        len(origin) >= 2
        and origin[0] in (0, 1, 2)
        and origin[1] in ("arguments", "result")
        and all(isinstance(part, str | int) for part in origin[2:])
    )
    if origin and not is_place:
        raise ValueError(f"{name!r} is no way to an argument")
    return trail
