"""Chats and tools that fill a context window, for tests of prompts that leave too little room."""

import anyio

from agentrt import Chat, chat, tool

ASK = chat(system="Be brief.")


@tool(effects="read")
async def fetch(words: int, seconds: float = 1.0) -> str:
    """Fetches many words."""
    await anyio.sleep(seconds)
    return "word " * words


def talk(turns: int) -> Chat:
    """A chat of so many turns."""
    made = ASK
    for index in range(turns):
        made = made.user(f"question {index} " + "word " * 60).assistant(f"answer {index}.")
    return made
