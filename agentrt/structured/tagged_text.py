"""Free text with triggered parts, as rules of a grammar (structural tags in vLLM and xgrammar).

Text is free until it holds a trigger. Behind a trigger follows what the grammar says, then the text
is free again. A trigger cannot stand in the text without what follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrt.base.errors import ConstraintError
from agentrt.structured.free_text import FreeText, Trigger, is_text
from agentrt.structured.json_schema.lark_text import LarkPart


@dataclass(frozen=True, slots=True)
class TriggeredPart:
    """A part of a text: the trigger that begins it, and the rest.

    Attributes:
        trigger: Text and ids of special tokens that begin the part.
        body: The rest of the part.
    """

    trigger: Trigger
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
    texts = tuple(str(part.trigger[0]) for part in parts if is_text(part.trigger))
    free, part_name = FreeText(texts, name=f"{prefix}text_end"), f"{prefix}part"
    rules = free.rules
    if max_parts == 0:
        return LarkPart(free.last, tuple(rules))
    by_trigger: dict[Trigger, list[LarkPart]] = {}
    for part in parts:
        by_trigger.setdefault(part.trigger, []).append(part.body)
        rules += part.body.rules
    names = [f"{part_name}_{index}" for index in range(len(by_trigger))]
    for name, (trigger, bodies) in zip(names, by_trigger.items(), strict=True):
        head = free.up_to(trigger, f"{name}_head")
        body = " | ".join(f"({one.expression})" for one in bodies)
        rules += [*head.rules, f"{name}: {head.expression} ({body})"]
    rules.append(f"{part_name}: {' | '.join(names)}")
    most = "" if max_parts is None else max_parts
    return LarkPart(f"{part_name}{{{min_parts},{most}}} {free.last}", tuple(rules))


def check_triggers(triggers: Sequence[Trigger]) -> None:
    """Refuse triggers by which the beginning of a part would not be clear.

    Raises:
        ConstraintError: See `tagged_text`.
    """
    if not triggers or not all(triggers) or "" in [trigger[0] for trigger in triggers]:
        raise ConstraintError("a part of a text has no trigger", hint="Give a text that begins it")
    texts = sorted({trigger[0] for trigger in triggers if is_text(trigger)}, key=str)
    for text in texts:
        for other in texts:
            if text != other and str(text) in str(other):
                raise ConstraintError(
                    f"the trigger {text!r} is within the trigger {other!r}",
                    hint="Give triggers that are not within each other",
                )
