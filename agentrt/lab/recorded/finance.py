"""Finance: plans, results and reports that the program of this name had on the embedded model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agentrt.lab.recorded.finance_recording import RECORDING
from agentrt.lab.recorded.json_calls import json_call
from agentrt.lab.recorded.program import OutputPart, RecordedProgram
from agentrt.lab.recorded.source import RecordSource
from agentrt.lab.workloads.sketch import assistant, system, user

_ANALYST = "You are a market analyst. Use only the numbers of the tools.\n"


def finance(source: RecordSource) -> Iterator[RecordedProgram]:
    """A program for each question; its tools start within the plan, as its calls close."""
    shared, *rows = source.rows(RECORDING)
    for number, row in enumerate(rows):
        sketch = source.sketch(number)
        prompt = [
            system(sketch.text(_ANALYST + shared["definitions"])),
            user(sketch.text(row["asked"])),
        ]
        plan: list[OutputPart] = []
        ends: list[int] = []
        for at, call in enumerate(row["calls"]):
            plan.append(OutputPart(",") if at else OutputPart("[", given=True))
            plan += json_call(call["name"], call["arguments"], shared["tools"])
            ends.append(sum(sketch.count_units(part.text) for part in plan))
        plan.append(OutputPart("]"))
        said = sketch.call("plan", prompt, plan)
        pairs = enumerate(zip(row["results"], ends, strict=True))
        results = [sketch.tool(f"tool{at}", "plan", text, end) for at, (text, end) in pairs]
        told = user(*results, sketch.text("Write the report."))
        sketch.call("report", [*prompt, assistant(said), told], list(_report(row["report"])))
        yield sketch.program(["report"])


def _report(text: str) -> Iterator[OutputPart]:
    """A report: figures are records of the tools, so that the choice of each is all that is free.

    Another kind of answer is free as a whole.
    """
    found: dict[str, Any] = json.loads(text)
    if set(found) != {"figures", "answer"}:
        yield OutputPart(text)
        return
    yield OutputPart('{"figures":[', given=True)
    for at, figure in enumerate(found["figures"]):
        if at:
            yield OutputPart(",")
        (key, chosen), *others = figure.items()
        yield OutputPart(f'{{"{key}":"', given=True)
        yield OutputPart(str(chosen))
        rest = json.dumps(dict(others), ensure_ascii=False, separators=(",", ":"))
        yield OutputPart(f'",{rest[1:]}', given=True)
    yield OutputPart("]")
    yield OutputPart(',"answer":"', given=True)
    yield OutputPart(json.dumps(found["answer"], ensure_ascii=False)[1:])
    yield OutputPart("}", given=True)
