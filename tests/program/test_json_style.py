"""The style of JSON as an option of a generation and of constraints."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt import UsageError, capture, cfg, chat, json_schema, program, regex, tag, tool, typed
from agentrt.program.options import check_options, check_output
from agentrt.program.output import calls_of, items_of, step_of, tagged_of, value_of

DIGIT = {"enum": [1, 2, 3]}
PAIR = json_schema({"type": "array", "items": DIGIT, "minItems": 2, "maxItems": 2})
WRITTEN = cfg('start: %json {"const": [1, 2]}', json_style="spaced")
COMPOSED = "is " + typed(PAIR, json_style="spaced")


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


@pytest.mark.parametrize("form", [cfg('start: "a"'), "v " + typed(int), capture("a", PAIR)])
def test_grammars_have_styles_of_their_own(form: Any) -> None:
    with pytest.raises(UsageError, match="json_style= means nothing for"):
        value_of(form, style="spaced")


def test_other_text_has_no_style() -> None:
    for form in (str, regex("[a-z]")):
        assert value_of(form, style="spaced") == value_of(form)


def test_styles_that_mean_nothing_are_refused() -> None:
    options: Any = {"json_style": "wide"}
    with pytest.raises(UsageError, match=r"json_style='wide' is unknown.*compact, spaced"):
        check_options(options)
    for output in (calls_of((price,)), tagged_of(tag("n", int), 0, None)):
        with pytest.raises(UsageError, match="json_style= means nothing for"):
            check_output(output, {"json_style": "spaced"})
