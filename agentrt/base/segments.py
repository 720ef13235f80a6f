"""Segments of a prompt, as plain values.

A chat is a sequence of segments. Roles open and close; between them are text, generated ids, tool
calls, tool results, and holes for pending values. Tokenizing is not done here: the codec
turns segments into ids, a remote backend turns them into messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from agentrt.base.json_style import JsonStyle, styled_json
from agentrt.base.record import record

Role = Literal["system", "user", "assistant", "tool"]
History = Literal["template", "append"]
"""How earlier answers of a model appear in its prompt. "template": as the chat template writes
them, which may drop the reasoning and with it the shared prefix from there on. "append": exactly as
they were generated."""


@record
class Open:
    """Start of a message of `role`."""

    role: Role


@record
class Close:
    """End of the message."""


@record
class Text:
    """Text of a message. It is data: text that looks like a special token stays text."""

    text: str


@record
class ValueText(Text):
    """Text of a message that is the value of a node.

    Attributes:
        node: Id of the node.
    """

    node: str


@record
class CallMade:
    """One tool call inside an assistant message.

    Attributes:
        call_id: Id that joins the call with its result.
        name: Name of the tool.
        arguments_json: Compact JSON object.
    """

    call_id: str
    name: str
    arguments_json: str


@record
class Generated:
    """Output of a model, with its token ids.

    Attributes:
        text: Whole output, call frames included if the model wrote them.
        token_ids: Generated ids (end token not included); () if unknown (remote engines).
        codec: Fingerprint of the codec of the ids; "" without ids.
        calls: Tool calls in the output, in order, for engines that take them separately.
        content: Text without call frames and reasoning.
        thinking: Reasoning text before the answer, in the model's frame; "" if the model was not
            asked to think.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    codec: str = ""
    calls: tuple[CallMade, ...] = ()
    content: str = ""
    thinking: str = ""

    @property
    def visible_text(self) -> str:
        """Text for other models: the content if there are calls or reasoning, else the text."""
        return self.content if self.calls or self.thinking else self.text

    def without_thinking(self) -> Generated:
        """The same for a model or a template that must not see the reasoning."""
        if not self.thinking:
            return self
        return Generated(self.text.removeprefix(self.thinking), (), "", self.calls, self.content)


@record
class Hole:
    """A part of a prompt with a pending value.

    Attributes:
        node: Id of the node that will fill it.
        generated: True if an assistant's answer will fill it, False for text.
        begun: Parts of the text that it begins with, as far as they are known.
    """

    node: str
    generated: bool = False
    begun: tuple[str, ...] = ()


@record
class ResultOf:
    """Marks the tool message around it as the answer to this call."""

    call_id: str
    name: str


@record
class PromptIds:
    """A whole prompt with its generation prompt, encoded elsewhere: alone in its chat."""

    token_ids: tuple[int, ...]


Segment = Open | Close | Text | CallMade | Generated | Hole | ResultOf | PromptIds


@record
class ToolSchema:
    """A tool as shown to the model.

    Attributes:
        name: Name for the model.
        description: One or two sentences.
        parameters: JSON Schema of the arguments, an object schema.
    """

    name: str
    description: str
    parameters: dict[str, Any]


@record
class ArgumentFrame:
    """The frame of one argument, where a model writes the arguments of a call one by one.

    The value of a text is the text itself, without quotes. All other values are JSON.

    Attributes:
        before: Text before the name, e.g. `<parameter=`.
        middle: Text between name and value.
        after: Text behind the value, which a text cannot hold.
        json_middle: Text between name and value if that is no text; "" if it is `middle`, too.
        style: Style of values that are no texts.
    """

    before: str
    middle: str
    after: str
    json_middle: str = ""
    style: JsonStyle = "compact"

    def text_of(self, value: Any) -> tuple[str, str]:
        """The text between the name and a value, and that of the value."""
        if isinstance(value, str):
            return self.middle, value
        return self.json_middle or self.middle, styled_json(value, self.style)

    def written(self, name: str, value: Any) -> str:
        """An argument as the model writes it."""
        return self.before + name + "".join(self.text_of(value)) + self.after


@record
class CallFrame:
    """The frame of a tool call in a model's output, as its chat template shows it.

    `before + name + middle + arguments + after`, several calls joined by `between`.

    Attributes:
        before: Text that opens one call, e.g. `<|call|>{"name":"`.
        middle: Text between name and arguments, e.g. `","arguments":`.
        after: Text that closes one call, e.g. `}<|/call|>`.
        between: Text between two calls; "" if they follow directly.
        first: Text before the first call (a list bracket, for example).
        last: Text after the last call.
        special: Texts of special tokens that occur in the frame.
        argument: Frame of each argument; None if the arguments are one JSON object.
        style: Style of that object.
    """

    before: str
    middle: str
    after: str
    between: str = ""
    first: str = ""
    last: str = ""
    special: tuple[str, ...] = ()
    argument: ArgumentFrame | None = None
    style: JsonStyle = "compact"

    def arguments_text(self, arguments_json: str) -> str:
        """The arguments of a call as the model writes them."""
        one = self.argument
        if one is None:
            if self.style == "compact":
                return arguments_json
            return styled_json(json.loads(arguments_json), self.style)
        return "".join(one.written(*item) for item in json.loads(arguments_json).items())

    def calls_text(self, calls: Iterable[tuple[str, str]]) -> str:
        """Calls as the model writes them, given by name and arguments as compact JSON."""
        written = (
            f"{self.before}{name}{self.middle}{self.arguments_text(arguments)}{self.after}"
            for name, arguments in calls
        )
        return f"{self.first}{self.between.join(written)}{self.last}"


def argument_texts(arguments_json: str, style: JsonStyle) -> dict[str, str]:
    """The values of arguments that are written one by one: texts bare, the rest as JSON."""
    values = json.loads(arguments_json).items()
    return {key: one if isinstance(one, str) else styled_json(one, style) for key, one in values}


JSON_ARRAY_FRAME = CallFrame(
    before='{"name":"', middle='","arguments":', after="}", between=",", first="[", last="]"
)
"""Plain JSON array of calls, for models without a call frame in their chat template."""


@record
class ThinkFrame:
    """The frame of a model's reasoning before its answer.

    The output is `opening + thought + closing + answer`; the model may end its thought earlier by
    writing `marker` itself, with `after` following.

    Attributes:
        opening: Start of the reasoning, for example `<think>` and a line feed.
        marker: End of the reasoning at any position, for example `</think>`.
        closing: Text written if the thinking budget is used up; it holds the marker.
        opened: Whether the chat template writes the opening in the generation prompt.
        special: Texts of special tokens that occur in the above.
    """

    opening: str
    marker: str
    closing: str
    opened: bool = False
    special: tuple[str, ...] = ()

    @property
    def after(self) -> str:
        """Text between the marker and the answer."""
        return self.closing.partition(self.marker)[2]


PLAIN_THINK_FRAME = ThinkFrame("<think>\n", "</think>", "\n</think>\n\n")
"""The same in plain letters, for models without a frame in their chat template and tokens."""
