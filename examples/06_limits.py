"""Limits hold for everything inside a block; an output can end validly instead of failing.

python examples/06_limits.py
"""

from typing import Annotated

from pydantic import BaseModel, Field

from agentrt import BudgetExceeded, chat, limits, program


class Order(BaseModel):
    """Who wants how many of what: more than fits into the tokens below."""

    name: Annotated[str, Field(max_length=40)]
    email: Annotated[str, Field(max_length=40)]
    quantity: Annotated[int, Field(ge=1, le=999)]
    item: Annotated[str, Field(max_length=40)]
    city: Annotated[str, Field(max_length=40)]


CLERK = chat(system="Extract the order.")


@program
async def limited(text: str) -> Order:
    """The order within 34 tokens: its end is cut off, what stands is valid."""
    ask = CLERK.user(text)
    try:
        async with limits(tokens=4):
            await ask.generate(max_tokens=40)
    except BudgetExceeded as error:
        print(error)
    return await ask.generate(Order, max_tokens=34, on_limit="close")


if __name__ == "__main__":
    print(limited.run("Mara Lindt, Oslo, mara@example.org: 3 desk lamps please."))
