"""Typed parts within text, and texts put together from parts.

python examples/09_tags.py
"""

from typing import Annotated

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentrt import Tagged, capture, chat, choice, program, regex, tag

CLERK = chat(system="Answer customers.")


class Sum(BaseModel):
    """A calculation."""

    left: Annotated[int, Field(ge=0, le=99)]
    right: Annotated[int, Field(ge=0, le=99)]


class Ticket(TypedDict):
    """A request for a desk."""

    code: str
    desk: str
    pieces: list[int]


# Free text, in which <sum>{...}</sum> holds a Sum and <order>...</order> a code.
TAGS = tag("sum", Sum) | tag("order", regex("[A-Z]{2}-[0-9]{3}"))

# Texts, regexes, choices and types are put together by +, | and repeat; captures become a record.
TICKET = (
    "Ticket "
    + capture("code", regex("[A-Z]{2}-[0-9]{3}"))
    + " for "
    + capture("desk", choice("orders", "returns"))
    + (", " + capture("pieces", Annotated[int, Field(ge=1, le=99)])).repeat(1, 3)
).into(Ticket)


@program
async def tags(question: str) -> Ticket:
    """Prints an answer with its tags as they come, then writes a ticket of fixed form."""
    answer = CLERK.user(question).tagged(
        TAGS, min_tags=1, max_tags=2, max_tokens=60, on_limit="close"
    )
    async for piece in answer:
        match piece:
            case Tagged("sum", Sum(left=left, right=right)):
                print(f"[{left} + {right} = {left + right}]", end="")
            case Tagged(name, value):
                print(f"[{name} {value}]", end="")
            case text:
                print(text, end="")
    print()
    return await answer.ctx.user("Write the ticket.").generate(TICKET, max_tokens=60)


if __name__ == "__main__":
    print(tags.run("Please add 3 lamps to the 4 that I ordered."))
