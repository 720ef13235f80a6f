"""One turn of a chat, drafted and guarded at the same time.

agentrt run programs/advisor.py --history @programs/data/messages.json --message "What is risk?"
"""

from typing import Literal

from agentrt import Chat, emit, program


@program
async def advisor(history: Chat, message: str) -> Chat:
    """The chat after an answer to `message`; a wish for personal investment advice is declined."""
    ctx = history.user(message)
    draft = ctx.generate(
        max_tokens=120, name="draft"
    )  # both branches share the whole prefix and one batch
    guard = ctx.user("Does that message ask for personal investment advice?")
    if await guard.generate(Literal["yes", "no"], name="guard") == "yes":
        draft.cancel("guard")
        draft = ctx.user("Decline politely, in one sentence.").generate(
            max_tokens=60, name="decline"
        )
    await emit(draft)  # tokens to the caller, also those decoded meanwhile
    await draft
    return draft.ctx  # keep this value; the next turn extends it
