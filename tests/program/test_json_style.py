"""The style of JSON as an option of a generation and of constraints."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, get_args

import pytest
from pydantic import BaseModel

from agentrt import (
    Chat,
    ConstraintError,
    OneOf,
    UsageError,
    capture,
    cfg,
    chat,
    json_schema,
    program,
    regex,
    tag,
    tool,
    typed,
)
from agentrt.base.json_style import JsonStyle, styled_json
from agentrt.program.options import check_options, check_output
from agentrt.program.output import calls_of, items_of, step_of, tagged_of, value_of
from agentrt.program.prompt_prefix import with_more_tools

DIGIT = {"enum": [1, 2, 3]}
PAIR = json_schema({"type": "array", "items": DIGIT, "minItems": 2, "maxItems": 2})
WRITTEN = cfg('start: %json {"const": [1, 2]}', json_style="spaced")
COMPOSED = "is " + typed(PAIR, json_style="spaced")


STYLES: tuple[JsonStyle, ...] = get_args(JsonStyle)
UNKNOWN = r"json_style='wide' is unknown.*compact, spaced, indented"


@tool(effects="pure")
def price(symbol: str) -> float:
    return len(symbol)


def style_of(output: Any) -> str:
    assert output.constraint is not None
    return str(output.constraint.style)


@pytest.mark.parametrize("form", [list[int], PAIR, dict[str, int]])
def test_the_option_gives_the_style(form: Any) -> None:
    for output_of in (value_of, items_of):
        assert style_of(output_of(form)) == "compact"
        assert style_of(output_of(form, style="spaced")) == "spaced"
    assert style_of(step_of((price,), form, style="spaced")) == "spaced"
    assert style_of(value_of(form, check=True, style="spaced")) == "spaced"


def test_a_constraint_keeps_its_style_unless_the_option_gives_another() -> None:
    spaced = typed(PAIR, json_style="spaced")
    assert style_of(value_of(spaced)) == style_of(items_of(spaced)) == "spaced"
    assert style_of(step_of((price,), spaced)) == "spaced"
    assert style_of(value_of(spaced, style="compact")) == "compact"
    assert style_of(value_of(typed(list[int], json_style="spaced"))) == "spaced"


@pytest.mark.model
def test_answers_have_the_style() -> None:
    @program
    async def pair() -> list[str]:
        asked = chat().user("Two numbers.")
        plain, spaced = asked.generate(PAIR), asked.generate(PAIR, json_style="spaced")
        values = [await plain, await spaced]
        assert all(len(value) == 2 for value in values)
        return [gen.text for gen in (plain, spaced)] + [
            await asked.generate(WRITTEN),
            await asked.generate(COMPOSED),
        ]

    compact, spaced, written, composed = pair.run()
    assert " " not in compact
    assert spaced.count(", ") == composed.count(", ") == 1
    assert written == "[1, 2]"


class Row(BaseModel):
    name: Literal["a", "b"]
    held: Annotated[list[int], OneOf([[1, 2], []])]


@pytest.mark.model
def test_indented_answers_are_streamed_and_read() -> None:
    """The lines of records that are options, known late, are those of their depth."""

    @program
    async def rows() -> list[str]:
        asked = chat().user("Rows.")
        items = asked.each(Row, min_items=2, max_items=2, json_style="indented", max_tokens=300)
        found = [item async for item in items]
        assert len(found) == 2
        whole = asked.generate(list[Row], json_style="indented", on_limit="close", max_tokens=60)
        await whole
        return [items.text, whole.text]

    for text in rows.run():
        assert text == json.dumps(json.loads(text), indent=2)


def test_a_type_with_free_parts_is_refused_where_it_is_declared() -> None:
    for form in (dict[str, Any], list[object]):
        with pytest.raises(ConstraintError, match="has no indented form: any value may stand"):
            value_of(form, style="indented")
        with pytest.raises(ConstraintError, match="has no indented form: any value may stand"):
            step_of((price,), form, style="indented")


@pytest.mark.parametrize("form", [cfg('start: "a"'), "v " + typed(int), capture("a", PAIR)])
def test_grammars_have_styles_of_their_own(form: Any) -> None:
    with pytest.raises(UsageError, match="json_style= means nothing for"):
        value_of(form, style="spaced")


def test_other_text_has_no_style() -> None:
    for form in (str, regex("[a-z]")):
        assert value_of(form, style="spaced") == value_of(form)


@pytest.mark.model
def test_values_in_a_prompt_have_the_style_of_the_chat() -> None:
    """Values that are pending when the prompt is declared, and those that are known."""

    @tool(effects="pure")
    def rows(count: int) -> list[dict[str, int]]:
        return [{"row": n} for n in range(count)]

    @program
    async def prompts(style: JsonStyle) -> list[Chat]:
        asked = with_more_tools(chat("Be brief.", json_style=style), [rows])
        late = rows(2)
        pending = asked.user("Count ", late).results([late])
        answer = pending.generate(max_tokens=5, on_limit="close")
        await answer
        return [pending, answer.ctx, asked.user("Count ", late).results([late])]

    @program
    async def all_prompts() -> list[list[Chat]]:
        return [await prompts(style) for style in STYLES]

    for style, chats in zip(STYLES, all_prompts.run(), strict=True):
        written = styled_json([{"row": 0}, {"row": 1}], style)
        for found in chats:
            messages = found.messages()
            assert messages[1]["content"] == f"Count {written}"
            assert messages[2]["content"] == written


def test_a_chat_refuses_an_unknown_style() -> None:
    style: Any = "wide"
    with pytest.raises(UsageError, match=UNKNOWN):
        chat(json_style=style)


def test_styles_that_mean_nothing_are_refused() -> None:
    options: Any = {"json_style": "wide"}
    with pytest.raises(UsageError, match=UNKNOWN):
        check_options(options)
    for output in (calls_of((price,)), tagged_of(tag("n", int), 0, None)):
        with pytest.raises(UsageError, match="json_style= means nothing for"):
            check_output(output, {"json_style": "spaced"})
