"""Cost of late options: `python tests/structured/options_cost.py [vocabulary] [options...]`.

A report whose figures are held to records gets them late. Printed are milliseconds of CPU time of
the thread that works, so that a busy machine changes little, the median and the worst of several
tables: `options` writes the records as JSON, reads them back and puts them into the constraint, on
a thread of the runtime if they are many; `loop` is what its loop does with them then, `ask` what
the loop of the engine does; `compile` is the rest, on a thread of the engine or in its sandbox; and
a mask, mean and worst, on the way through eight figures. With as many records that are known where
the type is declared, `declare` is what a caller spends, most of it on the type: `one_of` is the
part of the options. `declared` fills them in, on a thread, once. The default is 500 options of the
vocabulary 128k.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, Field

from agentrt.base.one_of import OneOf
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.lab.bench.structured.vocabularies import vocabulary_named
from agentrt.program.late_constraint import LateConstraint
from agentrt.structured import (
    CompileCache,
    Shape,
    bitmask_words,
    compile_constraint,
    shape_of,
)
from agentrt.structured.vocabulary import alphabet_of
from tests.structured.done_node import DoneNode

T = TypeVar("T")
TABLES = 7
FIGURES = 8
METRICS = ("total_return", "annual_return", "volatility", "drawdown")


class Figure(BaseModel):
    symbol: str
    metric: str
    period: str
    value: float


def figures_of(dice: random.Random, count: int) -> list[Figure]:
    return [
        Figure(
            symbol="".join(dice.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=4)),
            metric=dice.choice(METRICS),
            period=f"{dice.randint(1980, 2024)}-{dice.randint(1, 12):02}",
            value=round(dice.uniform(-90, 900), 2),
        )
        for _ in range(count)
    ]


def declared(figures: list[Figure]) -> Shape:
    return shape_of(Annotated[Figure, OneOf(figures)])


class Costs:
    """Milliseconds by what took them."""

    def __init__(self) -> None:
        self.ms: dict[str, list[float]] = {}

    def timed(self, name: str, work: Callable[[], T]) -> T:
        began_s = time.thread_time()
        result = work()
        self.ms.setdefault(name, []).append((time.thread_time() - began_s) * 1e3)
        return result


def measure(vocabulary: str, count: int) -> dict[str, Any]:
    vocab, dice, costs, cache = (
        vocabulary_named(vocabulary),
        random.Random(0),
        Costs(),
        CompileCache(),
    )
    alphabet = alphabet_of(vocab)
    row = np.zeros(bitmask_words(vocab.logits_size), np.int32)
    for table in range(TABLES + 1):
        figures = figures_of(dice, count)
        held = Annotated[Figure, OneOf(DoneNode(figures))]
        this = costs if table else Costs()  # the first warms up
        known = this.timed("declare", partial(declared, figures))
        this.timed("one_of", partial(OneOf, figures))
        if known.late:
            assert known.spec is not None
            this.timed("declared", LateConstraint(known.spec, known.late).fill)
        shape = shape_of(Annotated[list[held], Field(max_length=FIGURES)])
        assert shape.spec is not None
        late = LateConstraint(shape.spec, shape.late)
        if late.is_large:
            this.timed("options", late.fill)
        spec = this.timed("loop", partial(getattr, late, "known"))
        texts = shape.late["options:0"].texts
        frame = JSON_ARRAY_FRAME
        asked = this.timed("ask", partial(cache.start_compile, spec, vocab, frame))
        asked.result()
        this.timed("compile", partial(compile_constraint, spec, vocab, frame))
        state = asked.result().start()
        for token in alphabet.tokenize(f"[{','.join(dice.choices(texts, k=FIGURES))}]".encode()):
            this.timed("mask", partial(state.fill_bitmask, row))
            assert state.advance([token]) == 1
    cache.close()
    return {
        name: {
            "mean" if name == "mask" else "median": round(
                (statistics.mean if name == "mask" else statistics.median)(found), 3
            ),
            "worst": round(max(found), 3),
        }
        for name, found in costs.ms.items()
    }


if __name__ == "__main__":
    name, *counts = sys.argv[1:] or ["128k"]
    for count in map(int, counts or ["500"]):
        print(json.dumps({"vocabulary": name, "options": count, "ms": measure(name, count)}))
