"""Grammars of tool calls: heads, which lead to the name of a tool, and one for each tool's call.

A head ends behind the text between a call's name and its arguments, and knows tools by name only.
The grammar of a tool begins at its name and ends with the text that closes or continues the list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.json_style import JsonStyle
from agentrt.base.segments import CallFrame, ToolSchema
from agentrt.base.vocabulary import Vocab
from agentrt.structured.call_arguments import arguments_part
from agentrt.structured.free_text import FreeText
from agentrt.structured.json_schema.json_grammar import json_part
from agentrt.structured.json_schema.lark_text import LarkPart, pieces, quoted, spelled


class HeadPlace(Enum):
    """Place in an output where a head begins.

    Attributes:
        FIRST: Before everything.
        NAME: At the name of another call.
        TEXT: In free text, where more calls may come.
        TAIL: In free text, after all calls.
    """

    FIRST = auto()
    NAME = auto()
    TEXT = auto()
    TAIL = auto()


class FrameText:
    """The texts of a call frame in the vocabulary of a model.

    Args:
        frame: Frame of the model's calls.
        vocab: The model's vocabulary.

    Attributes:
        frame: Frame of the model's calls.
        special: Ids of the frame's special tokens.
        opening: Text before the name of a first call.
        again: Text between a call and the name of the next.
    """

    def __init__(self, frame: CallFrame, vocab: Vocab) -> None:
        self.frame = frame
        ids = vocab.special_ids
        self.special = {text: ids[text] for text in frame.special if text in ids}
        self.opening = frame.first + frame.before
        self.again = frame.between + frame.before
        known = {*self.special.values(), *vocab.eos_ids}
        self._other_ids = sorted(set(ids.values()) - known)

    @property
    def text_may_follow(self) -> bool:
        """Whether text behind a list of calls is told from another call."""
        return bool(self.frame.last) or not self.frame.first

    def literal(self, text: str) -> str:
        """`text` as Lark: special tokens by id, the rest as strings; "" for no text."""
        return spelled(self.pieces(text))

    def pieces(self, text: str) -> list[str | int]:
        """`text` cut at the frame's special tokens, which become ids."""
        return pieces(text, self.special)

    def named(self, tool_name: str) -> str:
        """The text from the name of a call to its arguments."""
        return _in_json(tool_name) + self.frame.middle

    def head(
        self,
        place: HeadPlace,
        tool_names: Sequence[str],
        final: Any = None,
        min_calls: int = 1,
        style: JsonStyle = "compact",
        *,
        exact: bool = True,
    ) -> str:
        """Lark of a head of calls, or of a final answer.

        Args:
            place: `FIRST` or `NAME`.
            tool_names: Names of the tools.
            final: Schema of a final answer, or None.
            min_calls: Minimum number of calls.
            style: Style of a final answer.
            exact: Whether numbers are written as rules; see `json_grammar`.
        """
        name = f"NAME {self.literal(self.frame.middle)}"
        rules = [f"NAME: {' | '.join(quoted(_in_json(one)) for one in tool_names)}"]
        if place is HeadPlace.NAME:
            return _lark([f"start: {name}", *rules])
        starts = [f"{self.literal(self.opening)} {name}"] if tool_names else []
        if tool_names and min_calls == 0:
            starts.append(self.literal(self.frame.first + self.frame.last) or '""')
        if final is not None:
            part = json_part(final, "final_", exact=exact, style=style)
            starts.append("final")
            rules += [f"final: {part.expression}", *part.rules]
        return _lark([f"start: {' | '.join(starts)}", *(rules if tool_names else rules[1:])])

    def head_in_text(self, place: HeadPlace, tool_names: Sequence[str]) -> str:
        """Lark of free text, with the head of a call at its end unless `place` is `TAIL`.

        The text holds no opening of a call, in special tokens or in letters. It may hold all
        special tokens that are no part of a frame.
        """
        text = FreeText((self.opening,), tuple(self._other_ids))
        if place is HeadPlace.TAIL:
            return _lark([f"start: {text.before} {text.last}", *text.rules])
        opened = text.up_to(tuple(self.pieces(self.opening)), "opened")
        names = f"NAME: {' | '.join(quoted(_in_json(one)) for one in tool_names)}"
        head = f"{opened.expression} NAME {self.literal(self.frame.middle)}"
        start = f"start: {text.before} ({head} | {text.last})"
        return _lark([start, *text.rules, *opened.rules, names])

    def whole(self, spec: ConstraintSpec) -> str:
        """Lark of whole outputs of a `calls` constraint, without the text around its calls."""
        fewest, most = max(spec.min_calls, 1), spec.max_calls
        rules: list[str] = []
        for index, tool in enumerate(spec.tools):
            part = self._arguments(tool, f"t{index}_")
            opening = self.literal(self.frame.before + self.named(tool.name))
            rules += [f"call_{index}: {opening} {part.expression} {self.literal(self.frame.after)}"]
            rules += part.rules
        starts: list[str] = []
        if spec.tools:
            rules.append("call: " + " | ".join(f"call_{i}" for i in range(len(spec.tools))))
            again = f"({self.literal(self.frame.between)} call){{{fewest - 1},{most - 1}}}"
            first, last = self.literal(self.frame.first), self.literal(self.frame.last)
            starts.append(f"{first} call {again} {last}")
        if spec.tools and spec.min_calls == 0:
            starts.append(self.literal(self.frame.first + self.frame.last) or '""')
        if spec.source:
            part = json_part(json.loads(spec.source), "final_", style=spec.style)
            starts.append(part.expression)
            rules += part.rules
        return _lark([f"start: {' | '.join(f'({one})' for one in starts)}", *rules])

    def call(self, tool: ToolSchema, endings: Sequence[str], *, exact: bool = True) -> str:
        """Lark of a tool's call, from its name on.

        Args:
            tool: The tool, with parameters in normal form.
            endings: Texts that may follow the call, of which one has to if "" is not among them.
            exact: Whether numbers are written as rules; see `json_grammar`.
        """
        arguments = self._arguments(tool, "t_", exact=exact)
        written = [self.literal(ending) for ending in endings if ending]
        end = f"({' | '.join(written)})" if written else ""
        if written and "" in endings:
            end += "?"
        opening, closing = self.literal(self.named(tool.name)), self.literal(self.frame.after)
        return _lark([f"start: {opening} {arguments.expression} {closing} {end}", *arguments.rules])

    def _arguments(self, tool: ToolSchema, prefix: str, *, exact: bool = True) -> LarkPart:
        one = self.frame.argument
        if one is None:
            return json_part(tool.parameters, prefix, exact=exact, style=self.frame.style)
        return arguments_part(tool.parameters, one, self.pieces, prefix, exact=exact)


def _lark(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _in_json(name: str) -> str:
    """A name as written inside a JSON string."""
    return quoted(name)[1:-1]
