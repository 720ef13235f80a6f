"""Final answers of steps, as scripts write them."""

import pytest

from agentrt import Final, chat, program, tool
from agentrt.testing import ScriptedRuntime


@tool(effects="read")
def look(word: str) -> str:
    """Looks a word up."""
    return word


@program
async def answer() -> str:
    turn = await chat("Be brief.").user("Say it.").step(tools=[look], final=str, name="turn")
    assert isinstance(turn, Final)
    return turn.value


@pytest.mark.parametrize("text", ["It is 4.", '"It is 4."'])
def test_a_final_text_needs_no_quotes(text: str) -> None:
    assert ScriptedRuntime({"turn": text}).run(answer).value == "It is 4."
