"""Free text with triggered parts, as rules of a grammar (structural tags in vLLM and xgrammar).

Text is free until it holds a trigger. Behind a trigger follows what the grammar says, then the text
is free again. A trigger cannot stand in the text without what follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrt.base.errors import ConstraintError
from agentrt.structured.json_schema.lark_text import LarkPart, quoted, spelled

_ANY = "/(?s:.*)/"
_SOME = "/(?s:.+)/"


@dataclass(frozen=True, slots=True)
class TriggeredPart:
    """A part of a text: the trigger that begins it, and the rest.

    Attributes:
        trigger: Text and ids of special tokens that begin the part.
        body: The rest of the part.
    """

    trigger: tuple[str | int, ...]
    body: LarkPart


def tagged_text(
    parts: Sequence[TriggeredPart],
    *,
    min_parts: int = 0,
    max_parts: int | None = None,
    prefix: str = "",
) -> LarkPart:
    """Free text with parts in it.

    Args:
        parts: The parts; those with equal triggers are alternatives.
        min_parts: Minimum number of parts.
        max_parts: Maximum number of parts; None sets no limit.
        prefix: Prefix of the names of rules: small letters, digits, underscores.

    Raises:
        ConstraintError: There are no parts, a trigger is empty, or one is within another, so that
            a part could not be told from text.
    """
    check_triggers([part.trigger for part in parts])
    free = _without([part.trigger[0] for part in parts if _is_text(part.trigger)], _ANY)
    rest, part_name = f"{prefix}text_end".upper(), f"{prefix}part"
    rules = [f"{rest}: {free}"]
    if max_parts == 0:
        return LarkPart(rest, tuple(rules))
    by_trigger: dict[tuple[str | int, ...], list[LarkPart]] = {}
    for part in parts:
        by_trigger.setdefault(part.trigger, []).append(part.body)
        rules += part.body.rules
    names = [f"{part_name}_{index}" for index in range(len(by_trigger))]
    for name, (trigger, bodies) in zip(names, by_trigger.items(), strict=True):
        head = f"{name}_head".upper()
        rules.append(f"{head}: {_head(trigger, parts)}")
        body = " | ".join(f"({one.expression})" for one in bodies)
        after = spelled(trigger[1:] if isinstance(trigger[0], str) else trigger)
        rules.append(f"{name}: {head} {after} ({body})")
    rules.append(f"{part_name}: {' | '.join(names)}")
    most = "" if max_parts is None else max_parts
    return LarkPart(f"{part_name}{{{min_parts},{most}}} {rest}", tuple(rules))


def check_triggers(triggers: Sequence[tuple[str | int, ...]]) -> None:
    """Refuse triggers by which the beginning of a part would not be clear.

    Raises:
        ConstraintError: See `tagged_text`.
    """
    if not triggers or not all(triggers) or "" in [trigger[0] for trigger in triggers]:
        raise ConstraintError("a part of a text has no trigger", hint="Give a text that begins it")
    texts = sorted({trigger[0] for trigger in triggers if _is_text(trigger)}, key=str)
    for text in texts:
        for other in texts:
            if text != other and str(text) in str(other):
                raise ConstraintError(
                    f"the trigger {text!r} is within the trigger {other!r}",
                    hint="Give triggers that are not within each other",
                )


def _is_text(trigger: tuple[str | int, ...]) -> bool:
    return all(isinstance(piece, str) for piece in trigger)


def _head(trigger: tuple[str | int, ...], parts: Sequence[TriggeredPart]) -> str:
    """The terminal of the text up to the first trigger, its leading text included."""
    texts = [part.trigger[0] for part in parts if _is_text(part.trigger)]
    if _is_text(trigger):
        return _first_of(texts, f"{_ANY} {quoted(str(trigger[0]))}")
    before = f"{_ANY} {quoted(trigger[0])}" if isinstance(trigger[0], str) else _ANY
    return _without(texts, before)


def _without(texts: Sequence[str | int], terminal: str) -> str:
    """A terminal without the texts that hold one of these."""
    if not texts:
        return terminal
    return f"({terminal}) & ~({_ANY} ({_either(texts)}) {_ANY})"


def _first_of(texts: Sequence[str | int], terminal: str) -> str:
    """A terminal without the texts in which one of these ends before the end."""
    return f"({terminal}) & ~({_ANY} ({_either(texts)}) {_SOME})"


def _either(texts: Sequence[str | int]) -> str:
    return " | ".join(dict.fromkeys(quoted(str(text)) for text in texts))
