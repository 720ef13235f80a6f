"""A tool is a function with a signature; called from a program it is a node too.

python examples/04_tools.py
"""

import time
from typing import Annotated, Literal

from pydantic import Field

from agentrt import chat, fan, gather, program, tool

READER = chat(system="Answer yes or no.")
PAGES = {"engines": "Engines batch requests.", "tides": "The moon moves the sea."}


@tool(effects="read", timeout=2.0, retries=1)
def page(title: str) -> str:
    """The text of one page.

    Args:
        title: Of the page.
    """
    time.sleep(0.01)  # a slow disk; tools run in threads and in parallel
    return PAGES[title]


@tool(effects="pure")
async def words(text: str) -> int:
    """How many words a text has."""
    return len(text.split())


@program
async def tools(topic: Annotated[str, Field(max_length=20)] = "sea") -> dict[str, tuple[int, str]]:
    """For each page its length in words, and whether it is about `topic`."""
    texts = fan(page, PAGES)
    lengths = [words(await text) for text in texts]
    about = [
        READER.user("Text: ", text, f"\nIs it about {topic}?").generate(Literal["yes", "no"])
        for text in texts
    ]
    counted, answers = await gather(*lengths), await gather(*about)
    return dict(zip(PAGES, zip(counted, answers, strict=True), strict=True))


if __name__ == "__main__":
    print(tools.run())
