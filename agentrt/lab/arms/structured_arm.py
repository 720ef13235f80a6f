"""The process of our constraints' arm: compile a constraint, walk texts through its masks.

Run as `python -P -m agentrt.lab.arms.structured_arm`; it answers `open`, `case`, `rows`, `masks`
and `closings`.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from llguidance import LLMatcher

from agentrt.base.errors import ConstraintError
from agentrt.base.segments import CallFrame
from agentrt.lab.arms.answering import answer_lines
from agentrt.lab.arms.vocabulary_file import vocabulary_from
from agentrt.structured import (
    Budgeted,
    CompiledConstraint,
    MaskPool,
    Shape,
    bitmask_words,
    cfg_shape,
    compile_constraint,
    fill_bitmasks,
    json_schema_shape,
    regex_shape,
)
from agentrt.structured.backends.llguidance_backend import LlguidanceState
from agentrt.structured.json_schema.native import schema_grammar
from agentrt.structured.matcher import allowed_ids
from agentrt.structured.vocabulary import alphabet_of

try:
    import jsonschema
except ModuleNotFoundError:  # an independent judge, installed for development
    jsonschema = None

Json = dict[str, Any]
_FRAME = CallFrame(before="", middle="", after="", special=())
_MOST_FORCED = 64
_SHAPES: dict[str, Callable[[Any], Shape]] = {
    "regex": regex_shape,
    "grammar": cfg_shape,
    "json": json_schema_shape,
    "pattern": json_schema_shape,
}
_CLASSES = re.compile(r"\\[pPwWdDsS]")
"""Character classes, which Python reads otherwise than ECMAScript does."""


class StructuredArm:
    """Our compiler and matchers over one vocabulary."""

    def open(self, settings: Json) -> Json:
        """Read the vocabulary, and load what the first compilation loads."""
        self._vocab = vocabulary_from(Path(settings["vocabulary"]))
        self._pool = MaskPool(2)
        self._asked = 0  # comparisons: who begins changes with each
        self._row = np.zeros(bitmask_words(self._vocab.logits_size), dtype=np.int32)
        self._compile(_shape("json", {"type": "boolean"}))
        return {"library": "agentrt", "judge": "none" if jsonschema is None else "jsonschema"}

    def case(self, kind: str, source: Any, texts: Sequence[Sequence[int]]) -> Json:
        """Compile a constraint and walk each text, mask by mask and then by forced runs."""
        began_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        try:
            shape = _shape(kind, source)
            declared_ns = time.perf_counter_ns()
            compiled = self._compile(shape)
        except ConstraintError as refused:
            return {"refused": refused.message, "keyword": refused.keyword}
        ended_ns, cpu_ended_ns = time.perf_counter_ns(), time.process_time_ns()
        walks = [self._walk(compiled, ids) for ids in texts]
        taken = [ids for ids, walk in zip(texts, walks, strict=True) if walk["taken"]]
        return {
            "declare_ns": declared_ns - began_ns,
            "compile_ns": ended_ns - declared_ns,
            "compile_cpu_ns": cpu_ended_ns - cpu_ns,
            "library": compiled.backend,
            "min_tokens": compiled.min_tokens,
            "walks": walks,
            "forced": [_forced(compiled, ids) for ids in taken],
        }

    def _walk(self, compiled: CompiledConstraint, ids: Sequence[int]) -> Json:
        state = compiled.start()
        wall_ns: list[int] = []
        cpu_ns: list[int] = []
        taken = True
        for token in (*ids, compiled.eos_ids[0]):
            cpu, began = time.thread_time_ns(), time.perf_counter_ns()
            state.fill_bitmask(self._row)
            ended, cpu_ended = time.perf_counter_ns(), time.thread_time_ns()
            wall_ns.append(ended - began)
            cpu_ns.append(cpu_ended - cpu)
            allowed = bool((int(self._row[token >> 5]) >> (token & 31)) & 1)
            if not allowed or state.advance([token]) == 0:
                taken = False
                break
        return {"taken": taken, "wall_ns": wall_ns, "cpu_ns": cpu_ns}

    def rows(
        self, kind: str, source: Any, texts: Sequence[Sequence[int]], count: int, rounds: int
    ) -> Json:
        """Time the masks of `count` rows in one call, each at another prefix of the texts."""
        compiled = self._compile(_shape(kind, source))
        prefixes = [ids[:length] for ids in texts for length in range(len(ids) + 1)]
        states = [compiled.start() for _ in range(count)]
        for at, state in enumerate(states):
            state.advance(prefixes[at % len(prefixes)])
        jobs = [(state, at) for at, state in enumerate(states)]
        mask = np.zeros((count, len(self._row)), dtype=np.int32)
        wall_ns = {"pool": list[int](), "alone": list[int]()}
        for _ in range(rounds):
            for name, pool in (("pool", self._pool), ("alone", None)):
                began = time.perf_counter_ns()
                fill_bitmasks(jobs, mask, pool)
                wall_ns[name].append(time.perf_counter_ns() - began)
        return {"wall_ns": wall_ns, "places": len(prefixes)}

    def masks(self, kind: str, source: Any, texts: Sequence[Sequence[int]], rounds: int) -> Json:
        """Time each mask of our constraint and of the same schema in llguidance alone, in turns."""
        try:
            compiled = self._compile(_shape(kind, source))
        except ConstraintError as refused:
            return {"refused": refused.message}
        self._asked += 1
        alphabet = alphabet_of(self._vocab)
        alone = LLMatcher(alphabet.tokenizer, schema_grammar(source), log_level=0)
        alone.unsafe_compute_mask_ptr(self._row.ctypes.data, self._row.nbytes)
        if alone.is_error():
            return {"refused": "llguidance alone"}
        walks = []
        for number, ids in enumerate(texts, self._asked):
            if compiled.start().advance(ids) != len(ids):
                continue
            if alone.deep_copy().try_consume_tokens(list(ids)) == len(ids):
                turns = [(number + at) % 2 == 0 for at in range(rounds)]
                times = [self._paired(compiled, alone, ids, turn) for turn in turns]
                walks.append({"ours": [ours for ours, _ in times], "alone": [a for _, a in times]})
        return {"walks": walks}

    def _paired(
        self, compiled: CompiledConstraint, alone: LLMatcher, ids: Sequence[int], ours_first: bool
    ) -> tuple[list[int], list[int]]:
        """CPU times of the masks along one text, ours and those of llguidance alone."""
        state, matcher = compiled.start(), alone.deep_copy()
        times: tuple[list[int], list[int]] = ([], [])
        address, size = self._row.ctypes.data, self._row.nbytes
        for token in (*ids, None):
            for is_ours in (ours_first, not ours_first):
                began = time.thread_time_ns()
                if is_ours and isinstance(state, LlguidanceState):
                    state.fill_bitmask_at(address, size)  # as the engine does
                elif is_ours:
                    state.fill_bitmask(self._row)
                else:
                    matcher.unsafe_compute_mask_ptr(address, size)
                times[not is_ours].append(time.thread_time_ns() - began)
            if token is not None:
                state.advance([token])
                matcher.consume_token(token)
        return times

    def closings(self, kind: str, source: Any, more: Sequence[int], seed: int) -> Json:
        """Write an output within each budget, every token drawn evenly from what is allowed.

        Args:
            kind: Kind of the constraint.
            source: Schema, pattern or grammar.
            more: Budgets, as tokens beyond the fewest of any output.
            seed: Seed of the draws.
        """
        shape = _shape(kind, source)
        compiled = self._compile(shape)
        if compiled.min_tokens is None:
            return {"closings": [], "min_tokens": None}
        dice = random.Random(seed)
        closings = []
        for beyond in more:
            out, steered = self._drawn(compiled, compiled.min_tokens + beyond, dice)
            fresh = compiled.start()
            whole = fresh.advance(out) == len(out) and fresh.can_stop()
            text = b"".join(self._vocab.token_bytes[token] for token in out).decode()
            wrong = "" if whole else "a fresh matcher does not take it"
            closings.append(
                {
                    "more": beyond,
                    "tokens": len(out),
                    "steered": steered,
                    "wrong": wrong or _wrong(shape, kind, source, text),
                }
            )
        return {"closings": closings, "min_tokens": compiled.min_tokens}

    def _drawn(
        self, compiled: CompiledConstraint, budget: int, dice: random.Random
    ) -> tuple[list[int], bool]:
        state = Budgeted.start(compiled, budget)
        out: list[int] = []
        while len(out) < budget:
            state.fill_bitmask(self._row)
            token = dice.choice(allowed_ids(self._row))
            if state.advance([token]) == 0:
                token = state.fallback()
                state.advance([token])
            if token in compiled.eos_ids:
                break
            out.append(token)
        return out, state.steered

    def _compile(self, shape: Shape) -> CompiledConstraint:
        assert shape.spec is not None
        return compile_constraint(shape.spec, self._vocab, _FRAME)


def _shape(kind: str, source: Any) -> Shape:
    return _SHAPES[kind](source)


def _forced(compiled: CompiledConstraint, ids: Sequence[int]) -> dict[str, int]:
    """Tokens of an accepted text that need no model, run after run as the engine appends them."""
    state = compiled.start()
    forced, other, at = 0, 0, 0
    while at < len(ids):
        run = state.forced_tokens(_MOST_FORCED)
        if run and run == list(ids[at : at + len(run)]):
            forced += len(run)
        else:
            other += bool(run)
            run = [ids[at]]
        state.advance(run)
        at += len(run)
    return {"tokens": len(ids), "forced": forced, "other": other}


def _wrong(shape: Shape, kind: str, source: Any, text: str) -> str:
    """Complaint of an independent judge about a text; "" if there is none."""
    try:
        value = shape.parse(text)
    except ValueError as wrong:
        return str(wrong).splitlines()[0][:200]
    if jsonschema is None or kind not in ("json", "pattern") or _CLASSES.search(str(source)):
        return ""
    found = next(jsonschema.Draft202012Validator(source).iter_errors(value), None)
    return "" if found is None else str(found.message)[:200]


if __name__ == "__main__":
    asyncio.run(answer_lines(StructuredArm()))
