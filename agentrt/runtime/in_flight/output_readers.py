"""Output readers: make items and a value of the text of a generation as it comes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agentrt.base.errors import RequestRejected, ToolFailed
from agentrt.base.segments import CallFrame, CallMade, ToolSchema
from agentrt.program import Calls, Each, Final, Gen, Tagged, TaggedText, ToolCall
from agentrt.program.tagged_text import add_piece

if TYPE_CHECKING:
    from agentrt.structured import CallText, TagText


def reader_of(gen: Gen[Any], frame: CallFrame) -> ValueReader:
    """The reader for the output of a generation, which may have handed out its first items."""
    output = gen.work.output
    match output.kind:
        case "value" | "raw":
            is_json = output.constraint is not None and output.constraint.kind == "json"
            return ValueReader(output.parse, is_json)
        case "items":
            return ItemReader(output.parse, _handed_out(gen))
        case "tagged":
            return TagReader(gen)
        case "calls" | "step":
            return CallReader(gen, frame, _handed_out(gen))


def item_texts(gen: Gen[Any], frame: CallFrame, text: str) -> list[str]:
    """The texts of the items that are complete in the answer of a generation."""
    from agentrt.structured import CallScanner, ItemScanner  # native libraries come along

    if gen.work.output.kind == "items":
        return ItemScanner().feed_text(text)
    scanner = CallScanner(frame, _offered(gen, frame))
    return [f"{one.name}({one.arguments_json})" for one in scanner.feed_text(text)]


def _offered(gen: Gen[Any], frame: CallFrame) -> list[ToolSchema]:
    """The tools of a generation if the frame is not read without their schemas."""
    if frame.argument is None:
        return []
    return [tool.spec.schema for tool in gen.work.output.tools.values()]


def _handed_out(gen: Gen[Any]) -> tuple[Any, ...]:
    return tuple(gen.items) if isinstance(gen, Each) else ()


class ValueReader:
    """Reads the output of one generation as it comes: here a value, read at the end."""

    def __init__(self, parse: Callable[[str], Any], is_json: bool) -> None:
        self._parse = parse
        self._is_json = is_json

    def push(self, text: str) -> list[Any]:
        """The items that more text completes."""
        return []

    def finish(self, text: str) -> Any:
        """The value of the whole text.

        Raises:
            ValueError: The text is not of the type of the output.
        """
        return self._parse(text)

    def partial(self, text: str) -> Any:
        """The known part of the value of an incomplete text, or None."""
        return _partial_json(text) if self._is_json else text or None

    @property
    def may_end(self) -> bool:
        """Whether the text so far is a whole answer, wherever a limit ends it."""
        return False

    def calls(self) -> tuple[CallMade, ...]:
        """The tool calls in the text."""
        return ()

    def content(self) -> str:
        """The text without the calls; "" if that is all of the text."""
        return ""


class ItemReader(ValueReader):
    """A JSON array, item by item.

    Args:
        parse: Makes an item of its text.
        handed_out: First items, which were handed out before and are kept when they are read again.
    """

    def __init__(self, parse: Callable[[str], Any], handed_out: tuple[Any, ...] = ()) -> None:
        from agentrt.structured import ItemScanner  # native libraries come along

        super().__init__(parse, is_json=True)
        self._scanner = ItemScanner()
        self._handed_out = handed_out
        self._items: list[Any] = []

    def push(self, text: str) -> list[Any]:
        found = self._scanner.feed_text(text)
        known = self._handed_out[len(self._items) :][: len(found)]
        new = [self._parse(item) for item in found[len(known) :]]
        self._items += [*known, *new]
        return new

    def finish(self, text: str) -> Any:
        if not self._scanner.done:
            raise ValueError("the list has no end")
        return list(self._items)

    def partial(self, text: str) -> Any:
        return list(self._items)


class TagReader(ValueReader):
    """Free text with tags, piece by piece."""

    def __init__(self, gen: Gen[Any]) -> None:
        from agentrt.structured import TagScanner  # native libraries come along

        super().__init__(gen.work.output.parse, is_json=False)
        self._gen = gen
        self._scanner = TagScanner(gen.work.output.tags)
        self._pieces: list[str | Tagged[Any]] = []

    def push(self, text: str) -> list[Any]:
        return [self._piece(one) for one in self._scanner.feed_text(text)]

    def finish(self, text: str) -> Any:
        for rest in self._scanner.end_text():
            piece = self._piece(rest)
            if isinstance(self._gen, TaggedText):
                add_piece(self._gen, piece)
        return list(self._pieces)

    def partial(self, text: str) -> Any:
        return list(self._pieces)

    @property
    def may_end(self) -> bool:
        scanner = self._scanner
        return not scanner.in_tag and scanner.parts >= self._gen.work.output.min_tags

    def _piece(self, found: str | TagText) -> str | Tagged[Any]:
        """A piece for the program; neighbouring texts are one in the value."""
        if not isinstance(found, str):
            made = Tagged(found.tag.name, found.tag.content.parse(found.content))
            self._pieces.append(made)
            return made
        if self._pieces and isinstance(self._pieces[-1], str):
            self._pieces[-1] += found
        else:
            self._pieces.append(found)
        return found


class CallReader(ValueReader):
    """Tool calls, or a final answer.

    Args:
        gen: The generation.
        frame: Frame of calls in its text.
        handed_out: First calls, which were handed out before and are kept when they are read again.
    """

    def __init__(
        self, gen: Gen[Any], frame: CallFrame, handed_out: tuple[ToolCall, ...] = ()
    ) -> None:
        from agentrt.structured import CallScanner  # native libraries come along

        super().__init__(gen.work.output.parse, is_json=True)
        self._gen = gen
        self._output = gen.work.output
        self._scanner = CallScanner(frame, _offered(gen, frame))
        self._handed_out = handed_out
        self._calls: list[ToolCall] = []

    def push(self, text: str) -> list[Any]:
        found = self._scanner.feed_text(text)
        known = self._handed_out[len(self._calls) :][: len(found)]
        self._calls += known
        new: list[ToolCall] = []
        for call in found[len(known) :]:
            new.append(self._call(call))
            self._calls.append(new[-1])
        return new if self._output.kind == "calls" else []

    def finish(self, text: str) -> Any:
        content = self._scanner.end_text()
        if self._output.kind == "calls":
            return list(self._calls)
        if self._calls:
            return Calls(tuple(self._calls), self._gen.ctx, content)
        return Final(self._output.parse(content))

    def partial(self, text: str) -> Any:
        if self._calls or self._output.kind == "calls":
            return list(self._calls)
        return _partial_json(self._scanner.content)

    @property
    def may_end(self) -> bool:
        constraint = self._output.constraint
        return constraint is not None and constraint.text and not self._scanner.in_call

    def calls(self) -> tuple[CallMade, ...]:
        return tuple(call.call for call in self._calls)

    def content(self) -> str:
        return self._scanner.content

    def _call(self, found: CallText) -> ToolCall:
        index = len(self._calls)
        tool = self._output.tools.get(found.name)
        if tool is None:
            raise RequestRejected(
                f"the model called {found.name!r}, which is no tool it was offered",
                hint=f"Offered: {', '.join(self._output.tools)}",
            )
        refused: ToolFailed | None = None
        arguments: dict[str, Any] = {}
        try:
            arguments = tool.spec.parse(found.arguments_json)
        except ToolFailed as error:
            refused = error
        made = CallMade(call_id(self._gen.id, index), found.name, found.arguments_json)
        return ToolCall(tool, arguments, made, self._gen, index, refused)


def _partial_json(text: str) -> Any:
    from agentrt.structured import NOTHING, PartialJson  # native libraries come along

    read = PartialJson()
    read.feed_text(text)
    value = read.value()
    return None if value is NOTHING else value


def call_id(node_id: str, index: int) -> str:
    """The id of a call: 9 letters and digits, which every chat template accepts."""
    return hashlib.blake2b(f"{node_id}/{index}".encode(), digest_size=8).hexdigest()[:9]
