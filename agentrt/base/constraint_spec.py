"""The constraint of a structured output, as plain data.

The language makes a spec and it travels to an engine; `agentrt.structured` compiles it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from agentrt.base.errors import ConstraintError
from agentrt.base.held_place import STAND_IN
from agentrt.base.json_style import JsonStyle
from agentrt.base.record import record
from agentrt.base.segments import ToolSchema

ConstraintKind = Literal["json", "regex", "choice", "grammar", "calls"]


@record
class ConstraintSpec:
    """One constraint. `kind` decides which fields count.

    Attributes:
        kind: `json` (source: JSON Schema as compact JSON, key order kept), `regex` (source: the
            pattern), `choice` (options), `grammar` (source: Lark), `calls` (tools, and `source`:
            the JSON Schema of the final answer when the model may answer instead, else "").
        source: Text of the schema, pattern or grammar; see `kind`.
        options: Texts of a `choice`; a text of a `grammar` if one is known, tried as its shortest.
        tools: The tools of `calls`.
        min_calls: Minimum number of calls, for `calls` without a final answer.
        max_calls: Maximum number of calls.
        text: Whether free text may stand around the calls; then there may be none.
        is_raw: Whether the tools are still to be checked and narrowed, by the compiler.
        style: Style of `json`, and of the final answer of `calls`.
        holes: Names of definitions that schemas refer to and that are not known yet, as
            `#/$defs/NAME`; of a `choice`, a name for its options. An engine gets a constraint with
            holes only in an incomplete request, and the one without them with the last fill.
    """

    kind: ConstraintKind
    source: str = ""
    options: tuple[str, ...] = ()
    tools: tuple[ToolSchema, ...] = ()
    min_calls: int = 1
    max_calls: int = 32
    text: bool = False
    is_raw: bool = False
    style: JsonStyle = "compact"
    holes: tuple[str, ...] = ()

    def filled(self, options: Mapping[str, tuple[str, ...]]) -> ConstraintSpec:
        """The constraint with the options of every hole.

        Args:
            options: The options of each hole, as JSON. A hole without any fits nothing.

        Raises:
            ConstraintError: An option of bare text is no text.
        """
        if not self.holes:
            return self
        if self.kind == "choice":
            texts = tuple(json.loads(text) for text in options[self.holes[0]])
            for text in texts:
                if not isinstance(text, str):
                    raise ConstraintError(
                        f"the option {json.dumps(text)[:60]} of a text is no text",
                        hint="Give texts, or a type that its options are of",
                    )
            return replace(self, options=texts, holes=())
        source = self.source and _with_texts(
            self.source, {name: _definition_text(options[name]) for name in self.holes}
        )
        definitions = (
            {name: json.loads(_definition_text(options[name])) for name in self.holes}
            if self.tools
            else {}
        )
        tools = tuple(
            replace(tool, parameters=_with_definitions(tool.parameters, definitions))
            for tool in self.tools
        )
        return replace(self, source=source, tools=tools, holes=())


def _definition_text(options: tuple[str, ...]) -> str:
    """The schema of some options, as JSON."""
    return f'{{"enum":[{",".join(options)}]}}' if options else "false"


def _with_texts(source: str, definitions: dict[str, str]) -> str:
    """A schema with those definitions that it refers to.

    The definitions stay text: a table of many options would be read and written for nothing, and
    in one piece, for which all threads of the process wait.
    """
    marks = {name: STAND_IN + name for name in definitions}
    schema = _with_definitions(json.loads(source), marks)
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    by_mark = {json.dumps(marks[name], ensure_ascii=False): definitions[name] for name in marks}
    return re.sub("|".join(map(re.escape, by_mark)), lambda found: by_mark[found[0]], text)


def _with_definitions(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A schema with those definitions that it refers to."""
    names = _names_in(schema)
    used = {name: one for name, one in definitions.items() if name in names}
    return {**schema, "$defs": {**schema.get("$defs", {}), **used}} if used else schema


def _names_in(schema: Any) -> set[str]:
    """Names of the definitions that a schema refers to."""
    found: set[str] = set()
    todo = [schema]
    while todo:
        here = todo.pop()
        if isinstance(here, dict):
            todo += here.values()
            if isinstance(ref := here.get("$ref"), str):
                found.add(ref.removeprefix("#/$defs/"))
        elif isinstance(here, list):
            todo += here
    return found
