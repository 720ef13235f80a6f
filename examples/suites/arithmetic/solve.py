"""Solve a problem in words or figures, step by step.

agentrt run examples/suites/arithmetic/solve.py --question "What is 12 * 11?"
"""

from typing import Annotated

from pydantic import BaseModel, Field

from agentrt import chat, program


class Solution(BaseModel):
    """The steps first, then the number that they lead to."""

    steps: Annotated[str, Field(max_length=1200)]
    number: float


TUTOR = chat(system="Solve the problem step by step. Give the result as one number.")


@program
async def solve(question: str) -> float:
    """The number that answers `question`."""
    said = await TUTOR.user(question).generate(Solution, max_tokens=600, on_limit="close")
    return said.number
