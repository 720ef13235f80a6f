"""Any type is an output: the engine can write nothing else.

python examples/02_types.py
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from agentrt import chat, gather, program


class Order(BaseModel):
    """Who wants how many of what."""

    name: Annotated[str, Field(max_length=40)]
    email: Annotated[str, Field(max_length=40)]
    quantity: Annotated[int, Field(ge=1, le=999)]
    item: Annotated[str, Field(max_length=40)]
    city: Annotated[str, Field(max_length=40)]


CLERK = chat(system="Extract the order.")


@program
async def types(text: str) -> tuple[Order, str]:
    """The order, and whether it is urgent; both are decoded in one batch."""
    ask = CLERK.user(text)
    order = ask.generate(Order, max_tokens=160, on_limit="close")
    urgent = ask.user("Is it urgent?").generate(Literal["yes", "no"], name="urgent")
    return await gather(order, urgent)


if __name__ == "__main__":
    order, urgent = types.run(
        "Hi, Mara Lindt here (mara@example.org). Please send 3 desk lamps to Oslo."
    )
    print(order.model_dump_json(indent=2))
    print("urgent:", urgent)
