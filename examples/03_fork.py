"""A chat is a value: using it twice forks it, and its prefix is computed once.

python examples/03_fork.py
"""

from collections import Counter
from typing import Annotated

from pydantic import BaseModel, Field

from agentrt import chat, program, race


class Solution(BaseModel):
    """The working before the number: a small model adds digit by digit, not in its head."""

    reasoning: Annotated[str, Field(max_length=80)]
    answer: int


SOLVER = chat(system="Solve step by step.")


@program
async def fork(question: str, n: int = 5) -> int:
    """The number that most of `n` samples agree on; those that cannot matter any more are ended."""
    ask = SOLVER.user(question)
    samples = [
        branch.generate(Solution, temperature=0.8, max_tokens=80, on_limit="close")
        for branch in ask.fork(n)
    ]
    votes: Counter[int] = Counter()
    async with race(samples, errors="skip") as finished:
        async for solution in finished:
            votes[solution.answer] += 1
            if votes[solution.answer] > n // 2:
                break  # leaving the block cancels the rest
    if not votes:
        await samples[0]  # all failed: so does this, and says why
    return votes.most_common(1)[0][0]


if __name__ == "__main__":
    print(fork.run("What is 47 + 38?"))
