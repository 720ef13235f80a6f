"""Self-consistency: sample several solutions, stop as soon as nobody can catch up.

agentrt run programs/vote.py --question "What is 47 + 38?"
"""

from collections import Counter
from typing import Annotated

from pydantic import BaseModel, Field

from agentrt import chat, program, race


class Solution(BaseModel):
    """Short working and the number it leads to."""

    reasoning: Annotated[str, Field(max_length=80)]
    answer: int


SOLVER = chat(system="Solve step by step.")


@program
async def vote(question: str, n: int = 9) -> int:
    """The answer that most of `n` sampled solutions agree on."""
    base = SOLVER.user(question)
    votes: Counter[int] = Counter()
    samples = [
        base.generate(Solution, temperature=0.8, max_tokens=80, on_limit="close", name=f"s{i}")
        for i in range(n)
    ]
    async with race(samples, errors="skip") as finished:
        async for solution in finished:  # in the order of completion
            votes[solution.answer] += 1
            (_, first), (_, second) = [*votes.most_common(2), (0, 0)][:2]
            if first > second + finished.pending:  # nobody can catch up
                break  # leaving the block cancels the rest
    if not votes:
        await samples[0]  # all failed: so does this, and says why
    return votes.most_common(1)[0][0]
