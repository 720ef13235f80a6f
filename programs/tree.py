"""Tree of thought: grow a few thoughts a level, let the model mark them, keep the best.

agentrt run programs/tree.py --question "What is 47 + 38?"
"""

from typing import Annotated

from pydantic import Field

from agentrt import Chat, chat, gather, program

Mark = Annotated[int, Field(ge=0, le=10)]

SOLVER = chat(system="Solve step by step.")


@program
async def tree(question: str, width: int = 3, depth: int = 2) -> int:
    """The answer after the most promising chain of `depth` thoughts; `width` survive a level."""
    frontier: list[Chat] = [SOLVER.user(question)]
    for _ in range(depth):
        thoughts = [
            chain.user("Next step?").generate(temperature=1.0, max_tokens=24, name="thought")
            for chain in frontier
            for _ in range(width)
        ]
        # the marks are declared before their thoughts exist
        marks = [t.ctx.user("Promise, 0 to 10?").generate(Mark, name="mark") for t in thoughts]
        ranked = sorted(zip(await gather(*marks), thoughts, strict=True), key=lambda pair: -pair[0])
        # chats that are dropped here die: their memory may go
        frontier = [thought.ctx for _, thought in ranked[:width]]
    return await frontier[0].user("Answer.").generate(int)
