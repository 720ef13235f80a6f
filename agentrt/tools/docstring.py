"""Description of a function and its arguments in its docstring: Google style, or plain text."""

from __future__ import annotations

import inspect
import re
from dataclasses import field

from agentrt.base.record import record

SECTION = re.compile(
    r"(args|arguments|parameters|returns?|yields?|raises|examples?|notes?|attributes|see also"
    r"|warnings?|todo|references):\s*$",
    re.IGNORECASE,
)
ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
FIELD = re.compile(r":param\s+(?:[^:]*\s)?(\w+):\s*(.*)")


@record
class Documented:
    """The parts of a docstring.

    Attributes:
        description: Everything before the first section, on one line a paragraph.
        arguments: Description of each argument, by name.
    """

    description: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> Documented:
    """Parse a docstring; None gives an empty description."""
    head: list[str] = []
    arguments: dict[str, str] = {}
    section = ""
    indent: int | None = None
    name = ""
    for line in inspect.cleandoc(text or "").splitlines():
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        opening = SECTION.match(stripped) if depth == 0 else None
        parameter = FIELD.match(stripped)
        if opening:
            section, indent, name = opening[1].lower(), None, ""
        elif parameter:
            section, name = "fields", parameter[1]
            arguments[name] = parameter[2]
        elif section in ("args", "arguments", "parameters", "attributes") and stripped:
            indent = depth if indent is None else indent
            found = ARGUMENT.match(stripped) if depth <= indent else None
            if found:
                name = found[1]
                arguments[name] = found[2]
            elif name:
                arguments[name] = f"{arguments[name]} {stripped}".strip()
        elif not section:
            head.append(stripped)
    return Documented(_paragraphs(head), arguments)


def _paragraphs(lines: list[str]) -> str:
    """Lines joined to paragraphs."""
    blocks = "\n".join(lines).strip().split("\n\n")
    return "\n".join(" ".join(block.split()) for block in blocks if block.strip())
