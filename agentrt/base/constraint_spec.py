"""The constraint of a structured output, as plain data.

The language makes a spec and it travels to an engine; `agentrt.structured` compiles it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

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
        holes: Names of definitions that `source` refers to and that are not known yet, as
            `#/$defs/NAME`; of a `choice`, a name for its options. An engine gets a constraint with
            holes only in an incomplete request, and the one without them with the last fill.
    """

    kind: ConstraintKind
    source: str = ""
    options: tuple[str, ...] = ()
    tools: tuple[ToolSchema, ...] = ()
    min_calls: int = 1
    max_calls: int = 32
    holes: tuple[str, ...] = ()

    def filled(self, options: Mapping[str, tuple[str, ...]]) -> ConstraintSpec:
        """The constraint with the options of every hole.

        Args:
            options: The options of each hole, as JSON. A hole without any fits nothing.
        """
        if not self.holes:
            return self
        if self.kind == "choice":
            texts = tuple(json.loads(text) for text in options[self.holes[0]])
            return replace(self, options=texts, holes=())
        schema: dict[str, Any] = json.loads(self.source)
        definitions = {name: _compact(one) for name, one in schema.pop("$defs", {}).items()}
        definitions |= {name: _definition(options[name]) for name in self.holes}
        joined = ",".join(f"{_compact(name)}:{text}" for name, text in definitions.items())
        return replace(self, source=f'{_compact(schema)[:-1]},"$defs":{{{joined}}}}}', holes=())


def _definition(options: tuple[str, ...]) -> str:
    """The schema of some options, each written as its own JSON."""
    return f'{{"enum":[{",".join(options)}]}}' if options else "false"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
