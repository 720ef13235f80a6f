"""Conversations of placeholders, and a template that is asked with them.

Placeholders are characters of a private use area that no template writes and hardly any text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentrt.base.segments import CallMade, ToolSchema
from agentrt.prompt.message_form import MessageForm, Turn
from agentrt.prompt.template import TemplateRefused
from agentrt.prompt.tokenizer_parts import TokenizerParts

FIRST, LAST = "\U0010fe00", "\U0010feff"
"""All placeholders lie within these."""

PROBE_TOOL = ToolSchema(
    "\U0010fe40t\U0010fe41",
    "\U0010fe42",
    {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
)

Render = Callable[[list[dict[str, Any]], list[dict[str, Any]] | None, bool], str]


def said(index: int) -> str:
    """Content of message `index`."""
    return f"\U0010fe00{index}\U0010fe01"


def named(index: int) -> str:
    """Name of the tool whose result is message `index`."""
    return f"\U0010fe02{index}\U0010fe03"


def call_id(index: int) -> str:
    """Id of the call that message `index` answers; nine characters, as some templates demand."""
    return f"\U0010fe06{index:07d}\U0010fe07"


def argued(index: int) -> str:
    """Arguments of that call."""
    return f'{{"\U0010fe04k":"{index}\U0010fe05"}}'


def call_to(index: int) -> CallMade:
    """The call that message `index` answers."""
    return CallMade(call_id(index), named(index), argued(index))


def holds_placeholder(text: str) -> bool:
    """Whether something of a probe is left in `text`."""
    return any(FIRST <= character <= LAST for character in text)


@dataclass(frozen=True, slots=True)
class TemplateProbe:
    """One template being asked.

    Attributes:
        render: Of the template.
        lexicon: Of the model.
        dialect: What is known so far.
    """

    render: Render
    lexicon: TokenizerParts
    dialect: MessageForm

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
