"""One runtime serves many runs: their generations share batches and prefixes.

python examples/07_many_runs.py
"""

from typing import Annotated

import anyio
from pydantic import BaseModel, Field

from agentrt import chat, program
from agentrt.analysis import RunRecord, RunRecorder, latency_line
from agentrt.app import open_runtime

SOLVER = chat(system="Solve step by step.")
QUESTIONS = ["What is 12 + 13?", "What is 40 - 17?", "What is 31 + 18?"]


class Solution(BaseModel):
    """The working before the number: a small model adds digit by digit, not in its head."""

    reasoning: Annotated[str, Field(max_length=80)]
    answer: int


@program
async def solve(question: str) -> int:
    """A number."""
    ask = SOLVER.user(question)
    return (await ask.generate(Solution, max_tokens=80, on_limit="close")).answer


async def main() -> None:
    """Run them all at once, then tell where the time of each went."""
    records: list[RunRecord] = []
    async with open_runtime(observers=[RunRecorder(records.append)]) as runtime:
        numbers = await runtime.map(solve, QUESTIONS)
    for question, number in zip(QUESTIONS, numbers, strict=True):
        print(question, number)
    for record in records:
        print(latency_line(record))


if __name__ == "__main__":
    anyio.run(main)
