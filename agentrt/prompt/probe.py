"""Probes: conversations of placeholders, rendered by a chat template to find its form.

Placeholders are characters of a private use area that no template and hardly any text contains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentrt.base.segments import CallMade, ToolSchema
from agentrt.prompt.message_form import MessageForm, Turn
from agentrt.prompt.template import TemplateRefused
from agentrt.prompt.tokenizer_parts import TokenizerParts

FIRST, LAST = "\U0010fe00", "\U0010feff"
"""Range of all placeholders."""

TOOL = ToolSchema(
    "\U0010fe40t\U0010fe41",
    "\U0010fe42",
    {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
)

Render = Callable[[list[dict[str, Any]], list[dict[str, Any]] | None, bool], str]


def text_of(index: int) -> str:
    """Content of message `index`."""
    return f"\U0010fe00{index}\U0010fe01"


def name_of(index: int) -> str:
    """Name of the tool with its result in message `index`."""
    return f"\U0010fe02{index}\U0010fe03"


def call_id(index: int) -> str:
    """Id of the call answered by message `index`; nine characters, as some templates demand."""
    return f"\U0010fe06{index:07d}\U0010fe07"


def args_of(index: int) -> str:
    """Arguments of that call."""
    return f'{{"\U0010fe04k":"{index}\U0010fe05"}}'


def call_of(index: int) -> CallMade:
    """The call answered by message `index`."""
    return CallMade(call_id(index), name_of(index), args_of(index))


def has_placeholder(text: str) -> bool:
    """Whether a placeholder is left in `text`."""
    return any(FIRST <= character <= LAST for character in text)


@dataclass(frozen=True, slots=True)
class TemplateProbe:
    """One template under test.

    Attributes:
        render: Renders the template.
        parts: Tokenizer of the model.
        form: Message form as known so far.
        tools: Tools offered, with markers escaped in their texts.
    """

    render: Render
    parts: TokenizerParts
    form: MessageForm
    tools: tuple[ToolSchema, ...] = ()

    def shows(self, turns: Sequence[Turn]) -> bool:
        """Whether the template accepts these turns and writes each of their texts once."""
        text = self.text(turns)
        return text is not None and all(text.count(t.text) == 1 for t in turns if t.text)

    def refusal(self, turns: Sequence[Turn]) -> str:
        """The template's error for these turns; "" if it accepts them."""
        try:
            self.rendered(turns)
        except TemplateRefused as error:
            return str(error)
        return ""

    def text(self, turns: Sequence[Turn]) -> str | None:
        """The template's text for these turns; None if it refuses them."""
        try:
            return self.rendered(turns)
        except TemplateRefused:
            return None

    def rendered(self, turns: Sequence[Turn]) -> str:
        """The template's text for these turns, with the generation prompt.

        Raises:
            TemplateRefused: The template refuses them.
        """
        messages = self.form.messages(turns, self.tools)
        return self.render(messages, self.form.tools(self.tools), True)
