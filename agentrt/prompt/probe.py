"""Conversations of placeholders, and a template that is asked with them.

Placeholders are characters of the private use area, which no template writes itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentrt.prompt.dialect import Dialect, Turn
from agentrt.prompt.lexicon import Lexicon
from agentrt.prompt.template import TemplateRefused
from agentrt.segments import CallMade, ToolSchema

FIRST, LAST = "\ue100", "\ue1ff"
"""All placeholders lie within these."""

PROBE_TOOL = ToolSchema(
    "\ue140t\ue141",
    "\ue142",
    {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
)

Render = Callable[[list[dict[str, Any]], list[dict[str, Any]] | None, bool], str]


def said(index: int) -> str:
    """Content of message `index`."""
    return f"\ue100{index}\ue101"


def named(index: int) -> str:
    """Name of the tool whose result is message `index`."""
    return f"\ue102{index}\ue103"


def call_id(index: int) -> str:
    """Id of the call that message `index` answers; nine characters, as some templates demand."""
    return f"\ue106{index:07d}\ue107"


def argued(index: int) -> str:
    """Arguments of that call."""
    return f'{{"\ue104k":"{index}\ue105"}}'


def call_to(index: int) -> CallMade:
    """The call that message `index` answers."""
    return CallMade(call_id(index), named(index), argued(index))


def holds_placeholder(text: str) -> bool:
    """Whether something of a probe is left in `text`."""
    return any(FIRST <= character <= LAST for character in text)


@dataclass(frozen=True, slots=True)
class Probe:
    """One template being asked.

    Attributes:
        render: Of the template.
        lexicon: Of the model.
        dialect: What is known so far.
    """

    render: Render
    lexicon: Lexicon
    dialect: Dialect

    def shows(self, turns: list[Turn], tools: tuple[ToolSchema, ...] = ()) -> bool:
        """Whether the template takes these turns and writes each of their texts once."""
        text = self.text(turns, tools)
        return text is not None and all(text.count(t.text) == 1 for t in turns if t.text)

    def refusal(self, turns: list[Turn]) -> str:
        """Why the template refuses these turns; "" when it does not."""
        try:
            self.render(self.dialect.messages(turns, ()), self.dialect.tools(()), True)
        except TemplateRefused as error:
            return str(error)
        return ""

    def text(self, turns: list[Turn], tools: tuple[ToolSchema, ...] = ()) -> str | None:
        """What the template writes for these turns; None when it refuses them."""
        messages = self.dialect.messages(turns, tools)
        try:
            return self.render(messages, self.dialect.tools(tools), True)
        except TemplateRefused:
            return None
