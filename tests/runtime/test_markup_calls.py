"""Calls whose arguments a model writes as markup, through the runtime to typed values."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from agentrt import Calls, Final, OneOf, chat, program, tool
from agentrt.testing import calls_text
from tests.prompt.call_codecs import call_codec


class Edit(BaseModel):
    line: int
    text: str


@tool(effects="pure")
def edit(path: str, edits: list[Edit], note: str | None = None, dry: bool = False) -> str:
    """Edits a file."""
    return f"{path}: {[(one.line, one.text) for one in edits]} {note!r} {dry}"


@tool(effects="pure")
def read(name: Annotated[str, OneOf(["5", "true"])]) -> str:
    """Reads a file."""
    return repr(name)


ARGUMENTS: dict[str, Any] = {
    "path": 'a "b".py',
    "edits": [{"line": 3, "text": "</parameter>"}],
    "note": "12 lines\n",
    "dry": True,
}


def test_calls_become_typed_values(bench) -> None:
    codec = call_codec("Qwen3-Coder")

    @program
    async def plan() -> list[object]:
        asked = chat().user("Edit it.").calls(edit, read)
        return [await call.start() async for call in asked]

    frame = codec.call_frame
    text = calls_text(("edit", ARGUMENTS), ("read", {"name": "5"}), frame=frame)
    assert "<parameter=dry>\ntrue\n</parameter>" in text
    first = "a \"b\".py: [(3, '</parameter>')] '12 lines\\n' True"
    assert bench([text], codec=codec).run(plan) == [first, "'5'"]
    wrong = calls_text(("read", {"name": "6"}), frame=frame)
    with pytest.raises(Exception, match="script's answer"):
        bench([wrong], codec=codec).run(plan)


def test_steps_go_on_after_calls_in_markup(bench) -> None:
    codec = call_codec("Qwen3-Coder")

    @program
    async def agent() -> object:
        step = chat().user("Edit it.").step(tools=[edit, read], final=int)
        while True:
            match await step:
                case Calls() as asked:
                    step = asked.run().step(tools=[edit, read], final=int)
                case Final(value):
                    return value

    text = calls_text(("edit", {"path": "a", "edits": []}), frame=codec.call_frame)
    rig = bench([text, "7"], codec=codec)
    assert rig.run(agent) == 7
    detokenizer = codec.detokenizer(keep_special=True)
    prompt = detokenizer.feed_ids(rig.backend.seen.requests[-1].prompt.token_ids)
    assert "<parameter=edits>\n[]\n</parameter>\n</function>\n</tool_call>" in prompt
