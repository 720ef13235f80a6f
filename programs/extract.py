"""Extract an order from a short text into a typed record.

agentrt run programs/extract.py --text "Mara Lindt, Oslo, mara@example.org: 3 desk lamps please."
"""

from typing import Annotated

from pydantic import BaseModel, Field

from agentrt import chat, program


class Order(BaseModel):
    """Who wants how many of what, and where."""

    name: Annotated[str, Field(max_length=60)]
    email: Annotated[str, Field(max_length=60)]
    quantity: Annotated[int, Field(ge=1, le=999)]
    item: Annotated[str, Field(max_length=60)]
    city: Annotated[str, Field(max_length=60)]


CLERK = chat(system="Extract the order.")


@program
async def extract(text: str) -> Order:
    """The order in `text`; a field that the text does not give is empty."""
    return await CLERK.user(text).generate(Order, max_tokens=160, on_limit="close")
