"""Typed outputs go into other prompts while they are written, as these write their values."""

from typing import Any

import pytest
from pydantic import BaseModel, field_serializer

from agentrt import chat, program
from agentrt.base.json_style import JsonStyle, styled_json
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.protocol.events import PromptRevised

ASK = chat(system="Be brief.")
NAMES = [f"river number {n}" for n in range(40)]
STYLES: tuple[JsonStyle, ...] = ("compact", "spaced", "indented")


class River(BaseModel):
    name: str
    miles: float
    joins: str | None = None


RIVERS = [River(name=name, miles=n + 0.5) for n, name in enumerate(NAMES)]
WRITTEN = styled_json([{"name": one.name, "miles": one.miles} for one in RIVERS])


class Loud(BaseModel):
    name: str

    @field_serializer("name")
    def loud(self, name: str) -> str:
        return name.upper()


def fills_of(rig: Any) -> list[Any]:
    return [fill for _, fill in rig.backend.seen.fills]


def whole_prompt(rig: Any) -> tuple[int, ...]:
    """The ids that the engine has of the verdict's last prompt when it is complete."""
    request = [r for r in rig.backend.seen.requests if r.node_id.endswith("verdict#0")][-1]
    ids: tuple[int, ...] = request.prompt.token_ids
    for request_id, fill in rig.backend.seen.fills:
        if request_id == request.request_id:
            ids += fill.token_ids
    return ids


@pytest.mark.parametrize("style", STYLES)
def test_a_list_goes_in_while_it_is_written(bench: Any, codec: Any, style: JsonStyle) -> None:
    @program
    async def judged() -> str:
        rivers = ASK.user("Name rivers.").generate(list[River], name="rivers", max_tokens=2000)
        ask = chat(system="Be brief.", json_style=style)
        return await ask.user("Of ", rivers, ": which?").generate(name="verdict")

    rig = bench([WRITTEN, "both"], codec=codec, decode_tokens_per_s=10.0)
    assert rig.run(judged) == "both"
    assert not rig.recorder.of(PromptRevised)
    fills = fills_of(rig)
    assert len(fills) > 6
    last = len(fills[-1].token_ids)
    assert last < len(whole_prompt(rig)) / 4, "most of it was computed before"
    text = styled_json([one.model_dump() for one in RIVERS], style)
    whole = ASK.user("Of ", text, ": which?")
    assert whole_prompt(rig) == codec.encode((), prompt_segments(whole)).token_ids


def test_items_go_in_while_they_are_written(bench: Any, codec: Any) -> None:
    @program
    async def judged() -> str:
        rivers = ASK.user("Name rivers.").each(River, name="rivers", max_tokens=2000)
        return await ASK.user("Of ", rivers, ": which?").generate(name="verdict")

    rig = bench([WRITTEN, "both"], codec=codec, decode_tokens_per_s=10.0)
    assert rig.run(judged) == "both"
    assert len(fills_of(rig)) > 6
    text = styled_json([one.model_dump() for one in RIVERS])
    whole = ASK.user("Of ", text, ": which?")
    assert whole_prompt(rig) == codec.encode((), prompt_segments(whole)).token_ids


def test_a_record_with_serializers_goes_in_at_its_end(bench: Any, codec: Any) -> None:
    """Nothing of it is certain before, so nothing is taken back."""

    @program
    async def judged() -> str:
        loud = ASK.user("Name a river.").generate(Loud, name="loud", max_tokens=2000)
        return await ASK.user("Of ", loud, ": which?").generate(name="verdict")

    rig = bench([styled_json({"name": " ".join(NAMES)}), "both"], codec=codec)
    assert rig.run(judged) == "both"
    assert [fill.complete for fill in fills_of(rig)] == [True]
    whole = ASK.user("Of ", styled_json({"name": " ".join(NAMES).upper()}), ": which?")
    assert whole_prompt(rig) == codec.encode((), prompt_segments(whole)).token_ids
