"""The constraint of a structured output, as plain data.

The language makes a spec and it travels to an engine; `agentrt.structured` compiles it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrt.base.segments import ToolSchema

ConstraintKind = Literal["json", "regex", "choice", "grammar", "calls"]


@dataclass(frozen=True, slots=True)
class ConstraintSpec:
    """One constraint. `kind` decides which fields count.

    Attributes:
        kind: `json` (source: JSON Schema as compact JSON, key order kept), `regex` (source: the
            pattern), `choice` (options), `grammar` (source: Lark), `calls` (tools, and `source`:
            the JSON Schema of the final answer when the model may answer instead, else "").
        source: Text of the schema, pattern or grammar; see `kind`.
        options: Texts of a `choice`.
        tools: The tools of `calls`.
        min_calls: Minimum number of calls, for `calls` without a final answer.
        max_calls: Maximum number of calls.
        text: Whether free text may stand around the calls; then there may be none.
    """

    kind: ConstraintKind
    source: str = ""
    options: tuple[str, ...] = ()
    tools: tuple[ToolSchema, ...] = ()
    min_calls: int = 1
    max_calls: int = 32
    text: bool = False
