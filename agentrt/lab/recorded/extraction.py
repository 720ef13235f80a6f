"""Extraction: the parallel calls that a request of BFCL names, as a JSON list held to its tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agentrt.lab.recorded.json_calls import json_calls
from agentrt.lab.recorded.program import RecordedProgram
from agentrt.lab.recorded.source import RecordSource
from agentrt.lab.workloads.sketch import system, user

_INSTRUCTION = (
    "Read the request and write each call of a function that it names, with all of its arguments, "
    "as a JSON list of objects with a name and arguments. Write nothing else. The functions are:\n"
)


def extraction(source: RecordSource) -> Iterator[RecordedProgram]:
    """A program for each task; of several right values the first counts."""
    answers = {row["id"]: row for row in source.rows("bfcl_parallel_answers.jsonl")}
    for number, row in enumerate(source.rows("bfcl_parallel.jsonl")):
        sketch = source.sketch(number)
        functions = json.dumps(row["function"], ensure_ascii=False)
        asked = "\n".join(message["content"] for turn in row["question"] for message in turn)
        prompt = [
            system(sketch.text(_INSTRUCTION), sketch.text(functions)),
            user(sketch.text(asked)),
        ]
        tools = {one["name"]: list(one["parameters"]["properties"]) for one in row["function"]}
        calls = [_call(one) for one in answers[row["id"]]["ground_truth"]]
        sketch.call("extract", prompt, list(json_calls(calls, tools)))
        yield sketch.program(["extract"])


def _call(answer: dict[str, dict[str, list[Any]]]) -> tuple[str, dict[str, Any]]:
    """Name and arguments of a call; "" among the values of an argument means that it may miss."""
    ((name, arguments),) = answer.items()
    return name, {key: values[0] for key, values in arguments.items() if values[0] != ""}
