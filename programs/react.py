"""Reason and act: search a small gazetteer, compute, answer with sources.

agentrt run programs/react.py --question "How much did Veldhaven grow from 1990 to 2020?"
"""

from typing import Annotated

import gazetteer
from pydantic import BaseModel, Field

from agentrt import Calls, Final, chat, program, tool


class Answer(BaseModel):
    """A short answer and the titles it came from."""

    text: Annotated[str, Field(max_length=120)]
    sources: Annotated[list[str], Field(max_length=4)]


@tool(effects="pure")
def search(query: str) -> gazetteer.Passage:
    """The passage that fits best."""
    return gazetteer.best(query, gazetteer.passages())


growth = tool(effects="pure")(gazetteer.growth)

REACT = chat(system="Use tools until you can answer.")


@program
async def react(question: str, max_steps: int = 6) -> Answer:
    """Answer `question` from the passages, with at most `max_steps` rounds of tools."""
    ctx = REACT.user(question)
    for _ in range(max_steps):
        match await ctx.step(
            tools=[search, growth], final=Answer, max_tokens=160, on_limit="close"
        ):
            case Final(value):
                return value
            case Calls() as turn:
                ctx = turn.run()  # all calls start now; the chat holds pending results
    return await ctx.user("Answer now.").generate(Answer, max_tokens=160, on_limit="close")
