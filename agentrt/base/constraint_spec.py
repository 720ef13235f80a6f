"""What an output must look like, as plain data.

A spec is what the language asks for and what crosses to an engine; `constraints` compiles it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrt.base.segments import ToolSchema

ConstraintKind = Literal["json", "regex", "choice", "grammar", "calls"]


@dataclass(frozen=True, slots=True)
class ConstraintSpec:
    """One constraint. Which fields count depends on `kind`.

    Attributes:
        kind: `json` (source: JSON Schema as compact JSON, key order kept), `regex` (source: the
            pattern), `choice` (options), `grammar` (source: Lark), `calls` (tools, and `source`:
            the JSON Schema of the final answer when the model may answer instead, else "").
        source: See `kind`.
        options: The texts of a `choice`.
        tools: The tools of `calls`.
        min_calls: Fewest calls, for `calls` without a final answer.
        max_calls: Most calls.
    """

    kind: ConstraintKind
    source: str = ""
    options: tuple[str, ...] = ()
    tools: tuple[ToolSchema, ...] = ()
    min_calls: int = 1
    max_calls: int = 32
