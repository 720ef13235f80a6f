"""Characters and colours of the tree: a set for terminals with Unicode, and one in ASCII."""

from __future__ import annotations

from agentrt.base.record import record
from agentrt.cli.run_tree.node import State


@record
class Glyphs:
    """Characters of the tree, each one column wide.

    Attributes:
        marks: Character of each kind of time, by its label.
        program: Character of the time of a program, which is that of its nodes.
        branch: Beginning of a row with others below it, two columns.
        last: Beginning of the last row.
        through: Continuation of a branch beside rows further in.
        more: Beginning of a line of counts.
        cut: Mark of text that was cut.
    """

    marks: dict[str, str]
    program: str
    branch: str
    last: str
    through: str
    more: str
    cut: str


ASCII = Glyphs(
    {
        "admission": ":",
        "cache": "m",
        "queue": ".",
        "kv_reload": "r",
        "prefill": "=",
        "decode": "#",
        "constraint": "c",
        "tool": "t",
        "orchestration": "-",
        "network": "~",
        "unattributed": "?",
    },
    program="_",
    branch="|-",
    last="`-",
    through="| ",
    more="+ ",
    cut="~",
)
UNICODE = Glyphs(
    {
        "admission": "⁞",
        "cache": "≈",
        "queue": "·",
        "kv_reload": "↻",
        "prefill": "▒",
        "decode": "█",
        "constraint": "▚",
        "tool": "■",
        "orchestration": "╌",
        "network": "~",
        "unattributed": "?",
    },
    program="─",
    branch="├ ",
    last="└ ",
    through="│ ",
    more="⋮ ",
    cut="…",
)

COLOURS: dict[str, str] = {
    "admission": "yellow",
    "cache": "cyan",
    "queue": "yellow",
    "kv_reload": "cyan",
    "prefill": "blue",
    "decode": "green",
    "constraint": "red",
    "tool": "magenta",
    "orchestration": "bright_black",
    "network": "cyan",
    "unattributed": "red",
}
STATE_COLOURS: dict[State, str] = {
    "held": "yellow",
    "sent": "cyan",
    "queue": "yellow",
    "prefill": "blue",
    "decode": "green",
    "tool": "magenta",
    "asks": "magenta",
    "failed": "red",
    "cancelled": "yellow",
}
FAINT = "bright_black"


def glyphs_for(encoding: str | None) -> Glyphs:
    """The characters that a stream of this encoding can take."""
    return UNICODE if (encoding or "").lower().replace("-", "").startswith("utf") else ASCII
