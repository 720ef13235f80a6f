"""What a prompt is made of, as plain values.

A chat is a sequence of segments. Roles open and close; between them stand text, generated ids, tool
calls, tool results, and holes whose value is still pending. No tokenizer here: the codec turns
segments into ids, a remote backend turns them into messages.
"""

from __future__ import annotations

from typing import Any, Literal

from agentrt.base.record import record

Role = Literal["system", "user", "assistant", "tool"]
History = Literal["template", "append"]
"""How earlier answers of a model stand in its prompt: as its template writes them, which may leave
out its reasoning and so loses the prefix from there on, or just as they were generated."""


@record
class Open:
    """A message of `role` begins."""

    role: Role


@record
class Close:
    """The message ends."""


@record
class Text:
    """Text of a message. It is data: what looks like a special token in it stays text."""

    text: str


@record
class CallMade:
    """One tool call inside an assistant message.

    Attributes:
        call_id: Joins it with its result.
        name: Of the tool.
        arguments_json: Compact JSON object.
    """

    call_id: str
    name: str
    arguments_json: str


@record
class Generated:
    """What a model wrote, with the ids that it wrote.

    Attributes:
        text: Everything, call frames included where the model wrote them.
        token_ids: As generated (end token not included); () when unknown (remote engines).
        codec: Fingerprint of the codec the ids belong to; "" when there are none.
        calls: The tool calls it holds, in order, for engines that want them apart.
        content: The text without its call frames and without its thinking.
        thinking: What of the text stands before the answer: its thought, in the model's frame; ""
            where it was not asked to think.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    codec: str = ""
    calls: tuple[CallMade, ...] = ()
    content: str = ""
    thinking: str = ""

    @property
    def said(self) -> str:
        """What it tells others: its text, or its content where that is less."""
        return self.content if self.calls or self.thinking else self.text

    def for_others(self) -> Generated:
        """The same for a model or a template that is not to see what it thought."""
        if not self.thinking:
            return self
        return Generated(self.text.removeprefix(self.thinking), (), "", self.calls, self.content)


@record
class Hole:
    """A part whose value is still pending.

    Attributes:
        node: Id of the node that will fill it.
        generated: True where an assistant's answer will stand, False for text.
    """

    node: str
    generated: bool = False


@record
class ResultOf:
    """Marks that the tool message it stands in answers this call."""

    call_id: str
    name: str


Segment = Open | Close | Text | CallMade | Generated | Hole | ResultOf


@record
class ToolSchema:
    """A tool as the model is told of it.

    Attributes:
        name: As the model calls it.
        description: One or two sentences.
        parameters: JSON Schema of the arguments, an object schema.
    """

    name: str
    description: str
    parameters: dict[str, Any]


@record
class CallFrame:
    """How a model writes tool calls, as its template shows them.

    `before + (name and arguments in `style`) + after`, several joined by `between`.

    Attributes:
        before: What opens one call, e.g. `<|call|>{"name":"`.
        middle: Between name and arguments, e.g. `","arguments":`.
        after: What closes one call, e.g. `}<|/call|>`.
        between: Between two calls; "" when they follow directly.
        first: Once before the first call (a list bracket, say).
        last: Once after the last call.
        special: Texts of special tokens that occur in the above.
    """

    before: str
    middle: str
    after: str
    between: str = ""
    first: str = ""
    last: str = ""
    special: tuple[str, ...] = ()


JSON_ARRAY_FRAME = CallFrame(
    before='{"name":"', middle='","arguments":', after="}", between=",", first="[", last="]"
)
"""For models whose template shows no call frame: a plain JSON array of calls."""


@record
class ThinkFrame:
    """How a model thinks before it answers.

    What it writes is `opening + thought + closing + answer`; it may end its thought earlier by
    writing `marker` itself, behind which `after` follows.

    Attributes:
        opening: What begins the thinking, `<think>` and a line feed, say.
        marker: What ends it, wherever it stands; `</think>`, say.
        closing: What is written when its tokens are used up; it holds the marker.
        opened: The template writes the opening itself, where the model is asked to go on.
        special: Texts of special tokens that occur in the above.
    """

    opening: str
    marker: str
    closing: str
    opened: bool = False
    special: tuple[str, ...] = ()

    @property
    def after(self) -> str:
        """What stands between the marker and the answer."""
        return self.closing.partition(self.marker)[2]


PLAIN_THINK_FRAME = ThinkFrame("<think>\n", "</think>", "\n</think>\n\n")
"""For models whose template and tokens show none: the same in letters."""
