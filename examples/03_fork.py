"""A chat is a value: using it twice forks it, and its prefix is computed once.

python examples/03_fork.py
"""

from collections import Counter

from agentrt import chat, program, race

SOLVER = chat(system="Solve step by step.")


@program
async def fork(question: str, n: int = 5) -> int:
    """The number that most of `n` samples agree on; those that cannot matter any more are ended."""
    ask = SOLVER.user(question)
    samples = [branch.generate(int, temperature=0.8, max_tokens=8) for branch in ask.fork(n)]
    votes: Counter[int] = Counter()
    async with race(samples, errors="skip") as finished:
        async for answer in finished:
            votes[answer] += 1
            if votes[answer] > n // 2:
                break  # leaving the block cancels the rest
    if not votes:
        await samples[0]  # all failed: so does this, and says why
    return votes.most_common(1)[0][0]


if __name__ == "__main__":
    print(fork.run("What is 12 + 30?"))
