"""Our constraints, in a process that answers lines of JSON."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentrt.base.errors import ConstraintError
from agentrt.base.segments import CallFrame
from agentrt.lab.arms.engine_arm import answer_all
from agentrt.lab.bench.structured.vocabularies import vocabulary_from
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
from agentrt.structured.matcher import allowed_ids

try:
    import jsonschema
except ModuleNotFoundError:  # an independent judge, for those who develop
    jsonschema = None

_FRAME = CallFrame(before="", middle="", after="", special=())
_MOST_FORCED = 64
_CLASSES = re.compile(r"\\[pPwWdDsS]")
"""Classes of characters, which Python reads otherwise than ECMAScript does."""


class OurArm:
    """Our compiler and matchers over one vocabulary.

    Args:
        vocabulary: File of the vocabulary.
    """

    def __init__(self, vocabulary: Path) -> None:
        self._vocab = vocabulary_from(vocabulary)
        self._pool = MaskPool(2)
        self._row = np.zeros(bitmask_words(self._vocab.logits_size), dtype=np.int32)
        compile_constraint(_shape("json", {"type": "boolean"}).spec, self._vocab, _FRAME)  # type: ignore[arg-type]  # has one

    def case(self, kind: str, source: Any, texts: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Compile it and walk each text mask by mask, then by forced runs."""
        began_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        try:
            shape = _shape(kind, source)
            declared_ns = time.perf_counter_ns()
            assert shape.spec is not None
            compiled = compile_constraint(shape.spec, self._vocab, _FRAME)
        except ConstraintError as refused:
            return {"refused": refused.message, "keyword": refused.keyword}
        ended_ns, cpu_ended_ns = time.perf_counter_ns(), time.process_time_ns()
        walks = [self._walk(compiled, ids) for ids in texts]
        return {
            "declare_ns": declared_ns - began_ns,
            "compile_ns": ended_ns - declared_ns,
            "compile_cpu_ns": cpu_ended_ns - cpu_ns,
            "library": compiled.backend,
            "min_tokens": compiled.min_tokens,
            "walks": walks,
            "forced": [
                _forced(compiled, ids)
                for ids, walk in zip(texts, walks, strict=True)
                if walk["taken"]
            ],
        }

    def _walk(self, compiled: CompiledConstraint, ids: Sequence[int]) -> dict[str, Any]:
        state = compiled.start()
        wall_ns: list[int] = []
        cpu_ns: list[int] = []
        for token in (*ids, compiled.eos_ids[0]):
            cpu, began = time.thread_time_ns(), time.perf_counter_ns()
            state.fill_bitmask(self._row)
            ended, cpu_ended = time.perf_counter_ns(), time.thread_time_ns()
            wall_ns.append(ended - began)
            cpu_ns.append(cpu_ended - cpu)
            allowed = bool((int(self._row[token >> 5]) >> (token & 31)) & 1)
            if not allowed or state.advance([token]) == 0:
                return {"taken": False, "wall_ns": wall_ns, "cpu_ns": cpu_ns}
        return {"taken": True, "wall_ns": wall_ns, "cpu_ns": cpu_ns}

    def rows(
        self, kind: str, source: Any, texts: Sequence[Sequence[int]], count: int, rounds: int
    ) -> dict[str, Any]:
        """Masks of `count` rows in one call, each at another place of one of the texts."""
        compiled = self._compiled(kind, source)
        places = [ids[:length] for ids in texts for length in range(len(ids) + 1)]
        states = [compiled.start() for _ in range(count)]
        for at, state in enumerate(states):
            state.advance(places[at % len(places)])
        jobs = [(state, at) for at, state in enumerate(states)]
        mask = np.zeros((count, len(self._row)), dtype=np.int32)
        wall_ns = {"pool": list[int](), "alone": list[int]()}
        for _ in range(rounds):
            for name, pool in (("pool", self._pool), ("alone", None)):
                began = time.perf_counter_ns()
                fill_bitmasks(jobs, mask, pool)
                wall_ns[name].append(time.perf_counter_ns() - began)
        return {"wall_ns": wall_ns, "places": len(places)}

    def close(self, kind: str, source: Any, more: Sequence[int], seed: int) -> dict[str, Any]:
        """Write an output within each budget, every token drawn evenly from what is allowed."""
        shape = _shape(kind, source)
        compiled = self._compiled(kind, source)
        if compiled.min_tokens is None:
            return {"closings": [], "min_tokens": None}
        dice = random.Random(seed)
        told = []
        for beyond in more:
            budget = compiled.min_tokens + beyond
            out, steered = self._drawn(compiled, budget, dice)
            fresh = compiled.start()
            whole = fresh.advance(out) == len(out) and fresh.can_stop()
            text = b"".join(self._vocab.token_bytes[token] for token in out).decode()
            wrong = "" if whole else "a fresh matcher does not take it"
            told.append(
                {
                    "more": beyond,
                    "tokens": len(out),
                    "steered": steered,
                    "wrong": wrong or _wrong(shape, kind, source, text),
                }
            )
        return {"closings": told, "min_tokens": compiled.min_tokens}

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

    def _compiled(self, kind: str, source: Any) -> CompiledConstraint:
        shape = _shape(kind, source)
        assert shape.spec is not None
        return compile_constraint(shape.spec, self._vocab, _FRAME)


def _shape(kind: str, source: Any) -> Shape:
    match kind:
        case "regex":
            return regex_shape(source)
        case "grammar":
            return cfg_shape(source)
        case _:
            return json_schema_shape(source)


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
    """What an independent judge says against a text; "" when nothing."""
    try:
        value = shape.parse(text)
    except ValueError as wrong:
        return str(wrong).splitlines()[0][:200]
    if jsonschema is None or kind not in ("json", "pattern") or _CLASSES.search(str(source)):
        return ""
    found = next(jsonschema.Draft202012Validator(source).iter_errors(value), None)
    return "" if found is None else str(found.message)[:200]


def main() -> None:
    """Questions: `open` first, then `case`, `rows` and `close`."""
    arms: list[OurArm] = []

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        match question.pop("do"):
            case "open":
                arms.append(OurArm(Path(question["settings"]["vocabulary"])))
                return {
                    "library": "agentrt",
                    "judge": "none" if jsonschema is None else "jsonschema",
                }
            case "case":
                return arms[-1].case(**question)
            case "rows":
                return arms[-1].rows(**question)
            case "close":
                return arms[-1].close(**question)
            case other:
                return {"error": f"no question is called {other!r}"}

    answer_all(answer)


if __name__ == "__main__":
    main()
