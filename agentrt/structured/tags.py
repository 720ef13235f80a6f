"""Tags: typed parts of free text, between a text that begins them and one that ends them.

`tags_spec` makes the constraint and `TagScanner` reads its texts. Both say alike where a tag ends:
JSON ends by its brackets, all other contents end with the first end text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.structured.closing.example_text import shortest_instance
from agentrt.structured.expression import ANY_TEXT, Expression, expression_of
from agentrt.structured.json_scan import ValueScanner, overlap
from agentrt.structured.json_schema.lark_text import LarkPart, quoted
from agentrt.structured.json_schema.limits import check_grammar, check_text
from agentrt.structured.tagged_text import TriggeredPart, tagged_text
from agentrt.structured.types.shape import Shape

MAX_TAGS = 64
MAX_PARTS = 1024
_BRACKETS = '{["'
_CONTAINERS = frozenset({"object", "array", "string"})
_WITHOUT_BRACKETS = frozenset("0123456789.eE+-" + "true" + "false" + "null")
"""Characters of JSON that begins with no bracket and no quote."""

_RANGES = re.compile(r"0-9|a-z|A-Z")
_WILD = re.compile(r"[.~&%\\-]|\[\^")
"""Parts of a grammar by which it may take characters that do not stand in it."""


@dataclass(frozen=True, slots=True, eq=False)
class TagShape:
    """One kind of tag.

    Attributes:
        name: Name of the tag.
        begin: Text that begins it.
        end: Text that ends it; "" if its content ends by itself.
        trigger: Beginning of `begin`: wherever the text holds it, a tag follows.
        content: Shape of the text between the two.
    """

    name: str
    begin: str
    end: str
    trigger: str
    content: Shape

    @property
    def is_json(self) -> bool:
        """Whether the content may end by a bracket."""
        return self.content.schema is not None


@dataclass(frozen=True, slots=True)
class TagText:
    """A tag as the model wrote it.

    Attributes:
        tag: Kind of the tag.
        content: The text between begin and end.
    """

    tag: TagShape
    content: str


def tags_spec(
    tags: Sequence[TagShape], min_parts: int = 0, max_parts: int | None = None
) -> ConstraintSpec:
    """The constraint of free text with tags.

    Args:
        tags: The kinds of tags.
        min_parts: Minimum number of tags in a text.
        max_parts: Maximum number of tags; None sets no limit.

    Raises:
        ConstraintError: The beginning or the end of a tag is not clear, or the counts are
            contradictory.
    """
    if not tags or len(tags) > MAX_TAGS:
        raise ConstraintError(f"{len(tags)} tags", hint=f"Give 1 to {MAX_TAGS}")
    if not 0 <= min_parts <= (MAX_PARTS if max_parts is None else max_parts) <= MAX_PARTS:
        raise ConstraintError(
            f"{min_parts} to {max_parts} tags", hint=f"Give a range within 0 to {MAX_PARTS}"
        )
    _check_names(tags)
    parts = [
        TriggeredPart((tag.trigger,), _body(tag, f"tag{index}_")) for index, tag in enumerate(tags)
    ]
    found = tagged_text(parts, min_parts=min_parts, max_parts=max_parts)
    lark = "\n".join([f"start: {found.expression}", *found.rules, ""])
    check_grammar(lark)
    examples = [text for tag in tags if (text := _example(tag)) is not None]
    known = (min(examples, key=len) * min_parts,) if examples else ()
    return ConstraintSpec("grammar", source=lark, options=known)


class TagScanner:
    """Cuts text that arrives in pieces into free text and tags.

    Text is given on as it comes, except an end that may begin a tag. Each character is scanned
    once, except in a marker that is split between two pieces.

    Attributes:
        parts: Number of tags found.
    """

    def __init__(self, tags: Sequence[TagShape]) -> None:
        self._tags = tuple(tags)
        self._triggers = tuple(dict.fromkeys(tag.trigger for tag in tags))
        self._pending = ""  # pending: may be the beginning of a marker
        self._tag = self._tags[0]  # the open one
        self._value = ValueScanner()
        self._content: list[str] = []
        self._found: list[str | TagText] = []
        self.parts = 0
        self._step = self._find_trigger  # false if more text is needed

    @property
    def in_tag(self) -> bool:
        """Whether a tag is open: the text cannot end here."""
        return self._step != self._find_trigger

    def feed_text(self, text: str) -> list[str | TagText]:
        """Free text and closed tags, in order.

        Raises:
            ValueError: The text is not of `tags_spec`.
        """
        self._pending += text
        while self._step():
            pass
        found, self._found = self._found, []
        return found

    def end_text(self) -> list[str | TagText]:
        """End the text: a trigger that is not complete is text.

        Raises:
            ValueError: A tag is open.
        """
        if self.in_tag:
            raise ValueError("a tag has no end")
        rest, self._pending = self._pending, ""
        return [rest] if rest else []

    def _find_trigger(self) -> bool:
        places = ((self._pending.find(one), one) for one in self._triggers)
        at, trigger = min(((at, one) for at, one in places if at >= 0), default=(-1, ""))
        longest = max(overlap(self._pending, one) for one in self._triggers)
        cut = at if trigger else len(self._pending) - longest
        if cut:
            self._found.append(self._pending[:cut])
            self._pending = self._pending[cut:]
        if trigger:
            self._step = self._find_begin
        return bool(trigger)

    def _find_begin(self) -> bool:
        for tag in self._tags:
            if self._pending.startswith(tag.begin):
                self._tag, self._pending = tag, self._pending[len(tag.begin) :]
                self._step = self._find_content
                return True
        if not any(tag.begin.startswith(self._pending) for tag in self._tags):
            raise ValueError(f"{self._pending[:60]!r} begins no tag")
        return False

    def _find_content(self) -> bool:
        if not self._pending:
            return False
        self._value = ValueScanner()
        by_bracket = self._tag.is_json and self._pending[0] in _BRACKETS
        self._step = self._find_bracket if by_bracket else self._find_end
        return True

    def _find_bracket(self) -> bool:
        end = self._value.feed(self._pending, 0)
        self._content.append(self._pending[:end])
        self._pending = "" if end is None else self._pending[end:]
        if end is not None:
            self._step = self._find_end
        return end is not None

    def _find_end(self) -> bool:
        end = self._tag.end
        at = self._pending.find(end)
        cut = len(self._pending) - overlap(self._pending, end) if at < 0 else at
        self._content.append(self._pending[:cut])
        self._pending = self._pending[cut:]
        if at < 0:
            return False
        self._pending = self._pending[len(end) :]
        self._found.append(TagText(self._tag, "".join(self._content)))
        self.parts += 1
        self._content.clear()
        self._step = self._find_trigger
        return True


def _example(tag: TagShape) -> str | None:
    """A short text of a tag, if one is found without a search."""
    spec, content = tag.content.spec, None
    if spec is None:
        content = ""
    elif spec.kind == "choice":
        content = min(spec.options, key=len)
    elif tag.content.schema is not None:
        content = shortest_instance(tag.content.schema, spec.style)
    return None if content is None else tag.begin + content + tag.end


def _body(tag: TagShape, prefix: str) -> LarkPart:
    """The rest of a tag behind its trigger."""
    begin = tag.begin[len(tag.trigger) :]
    before = f"{quoted(begin)} " if begin else ""
    content = expression_of(tag.content.spec, prefix)
    _check_end(tag, content)
    expression, rules = content.lark.expression, content.lark.rules
    if not content.is_regular:
        after = f" {quoted(tag.end)}" if tag.end else ""
        return LarkPart(f"{before}{expression}{after}", rules)
    name, end = f"{prefix}content".upper(), quoted(tag.end)
    terminal = f"{name}: ({expression} {end}) & ~({ANY_TEXT} {end} /(?s:.+)/)"
    return LarkPart(f"{before}{name}", (*rules, terminal))


def _check_names(tags: Sequence[TagShape]) -> None:
    if len({tag.name for tag in tags}) < len(tags):
        raise ConstraintError("two tags have one name", hint="Rename one of them")
    for tag in tags:
        check_text(tag.begin + tag.end, f"tag {tag.name}")
        if not tag.trigger or not tag.begin.startswith(tag.trigger):
            raise ConstraintError(
                f"tag {tag.name}: the trigger {tag.trigger!r} does not begin {tag.begin!r}",
                hint="Give a beginning of `begin`",
            )
        for other in tags:
            if other is not tag and other.begin.startswith(tag.begin):
                raise ConstraintError(
                    f"tag {other.name} begins like tag {tag.name}",
                    hint="Give texts that do not begin with each other",
                )


def _check_end(tag: TagShape, content: Expression) -> None:
    """Refuse a content whose end could not be told.

    Raises:
        ConstraintError: The message names the tag.
    """
    schema = tag.content.schema
    if schema is not None and schema.get("type") in _CONTAINERS and not content.is_regular:
        return  # it ends by itself
    if not tag.end:
        raise ConstraintError(
            f"tag {tag.name}: its content does not end by itself", hint="Give a text as `end`"
        )
    if content.is_regular:
        return
    source = tag.content.spec.source if tag.content.spec is not None else ""
    may_hold = tag.end[0] in _WITHOUT_BRACKETS
    if schema is None:
        first = tag.end[0]
        may_hold = first in source or first.isalnum() or not first.isascii()
        may_hold = may_hold or _WILD.search(_RANGES.sub("", source)) is not None
    if may_hold:
        raise ConstraintError(
            f"tag {tag.name}: its content may hold the beginning of its end {tag.end!r}",
            hint="Give an end whose first character cannot stand in the content",
        )
