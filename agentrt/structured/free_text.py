"""Free text as part of a grammar: all of it, or up to the first trigger of a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrt.structured.json_schema.lark_text import LarkPart, quoted, spelled

Trigger = tuple[str | int, ...]
"""Text and ids of special tokens that begin a part of a text."""

_ANY = "/(?s:.*)/"
_SOME = "/(?s:.+)/"


@dataclass(frozen=True, slots=True)
class FreeText:
    """Text that holds none of some texts.

    A text ends where a trigger begins, so the letters in front of a trigger's first special token
    belong to the terminal of the text.

    Attributes:
        forbidden: The texts that stand nowhere in it.
        special_ids: Special tokens that may stand in it.
        name: Name of the terminal of text: letters, digits, underscores.
    """

    forbidden: tuple[str, ...]
    special_ids: tuple[int, ...] = ()
    name: str = "text"

    @property
    def before(self) -> str:
        """Text up to the last special token in it, as an expression; "" if there can be none."""
        return f"({self.last} {self.name.lower()}_other)*" if self.special_ids else ""

    @property
    def last(self) -> str:
        """Text behind the last special token, or all of it, as an expression."""
        return self.name.upper()

    @property
    def rules(self) -> list[str]:
        """Rules and terminals that the expressions need."""
        rules = [f"{self.last}: {self._without_forbidden(_ANY)}"]
        if self.special_ids:
            ids = ",".join(map(str, self.special_ids))
            rules.append(f"{self.name.lower()}_other: <[{ids}]>")
        return rules

    def up_to(self, trigger: Trigger, name: str) -> LarkPart:
        """Text behind `before` up to the end of a trigger, which stands nowhere in the text.

        Args:
            trigger: Not empty; if it is a text, it is among the forbidden ones.
            name: Name of its terminal.
        """
        first, name = trigger[0], name.upper()
        if is_text(trigger):
            terminal = f"{_ANY} {quoted(str(first))}"
            head = f"({terminal}) & ~({_ANY} ({self._either()}) {_SOME})"
        else:
            led = f"{_ANY} {quoted(first)}" if isinstance(first, str) else _ANY
            head = self._without_forbidden(led)
        after = spelled(trigger[1:] if isinstance(first, str) else trigger)
        return LarkPart(f"{name} {after}".rstrip(), (f"{name}: {head}",))

    def _without_forbidden(self, terminal: str) -> str:
        if not self.forbidden:
            return terminal
        return f"({terminal}) & ~({_ANY} ({self._either()}) {_ANY})"

    def _either(self) -> str:
        return " | ".join(dict.fromkeys(quoted(text) for text in self.forbidden))


def is_text(trigger: Sequence[str | int]) -> bool:
    """Whether a trigger has no special tokens."""
    return all(isinstance(piece, str) for piece in trigger)
