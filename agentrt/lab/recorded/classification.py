"""Classification: questions of GSM8K behind eight solved ones, with their recorded answers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from agentrt.lab.recorded.program import OutputPart, RecordedProgram
from agentrt.lab.recorded.source import RecordSource
from agentrt.lab.workloads.sketch import system, user

_EXAMPLES = 8


def classification(source: RecordSource) -> Iterator[RecordedProgram]:
    """Programs of 8 to 24 questions; the last questions of the file are the solved ones."""
    rows = source.rows("gsm8k_test.jsonl")
    solved = "\n\n".join(_asked(row) + row["answer"] for row in rows[-_EXAMPLES:])
    begin, last = 0, len(rows) - _EXAMPLES
    for number in count():
        sketch = source.sketch(number)
        end = begin + source.scale.many(sketch.draw("inputs"))
        if end > last:
            return
        examples = system(sketch.text(solved + "\n\n"))
        names = []
        for at, row in enumerate(rows[begin:end]):
            prompt = [examples, user(sketch.text(_asked(row)))]
            sketch.call(f"input{at}", prompt, [OutputPart(row["answer"])], site="classify")
            names.append(f"input{at}")
        yield sketch.program(names)
        begin = end


def _asked(row: Any) -> str:
    return f"Question: {row['question']}\nAnswer: "
