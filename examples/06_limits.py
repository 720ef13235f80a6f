"""Limits hold for everything inside a block; an output can end validly instead of failing.

python examples/06_limits.py
"""

from pydantic import BaseModel

from agentrt import BudgetExceeded, chat, limits, program

WRITER = chat(system="Solve step by step.")


class Essay(BaseModel):
    """Something that would be long."""

    title: str
    paragraphs: list[str]


@program
async def limited(topic: str) -> Essay:
    """An essay within 24 tokens: cut short, and still valid."""
    ask = WRITER.user(topic)
    try:
        async with limits(tokens=4):
            await ask.generate(max_tokens=40)
    except BudgetExceeded as error:
        print(error)
    return await ask.generate(Essay, max_tokens=24, on_limit="close")


if __name__ == "__main__":
    print(limited.run("What is 11 + 22?"))
