"""Constraint dialects: forms of a structured output in requests to servers, the surest first.

A dialect turns a constraint into fields of the request. `probe` finds out which of them a server
really enforces, with constraints that no model would satisfy by chance.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrt.base import canonical_json
from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.errors import Unsupported
from agentrt.base.segments import ToolSchema
from agentrt.prompt.message_form import function_of

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConstraintDialect:
    """One form of a constraint in a request.

    Attributes:
        name: Name for people: the field that carries it.
        fields: Fields of the request.
        compact: Whether white space is removed from its JSON (calls written as plain text).
        covers: Whether it can express this constraint; None covers all of its kind.
    """

    name: str
    fields: Callable[[ConstraintSpec], Json]
    compact: bool = False
    covers: Callable[[ConstraintSpec], bool] | None = None


def _json_schema(spec: ConstraintSpec) -> Json:
    return _response_format(json.loads(spec.source))


def _response_format(schema: Any) -> Json:
    wanted = {"name": "output", "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": wanted}}


def _structured(key: str) -> Callable[[ConstraintSpec], Json]:
    """Field of vLLM and of agentrt's own server."""
    return lambda spec: {"structured_outputs": {key: _value(spec)}}


def _field(key: str) -> Callable[[ConstraintSpec], Json]:
    return lambda spec: {key: _value(spec)}


def _value(spec: ConstraintSpec) -> Any:
    return list(spec.options) if spec.kind == "choice" else spec.source


def _gbnf_choice(spec: ConstraintSpec) -> Json:
    """llama.cpp has its own grammar notation (GBNF); a choice is one rule of literals."""
    literals = (json.dumps(option, ensure_ascii=False) for option in spec.options)
    return {"grammar": f"root ::= {' | '.join(literals)}"}


def tools_of(tools: Sequence[ToolSchema]) -> list[Json]:
    """Tools in the form of the API."""
    return [{"type": "function", "function": function_of(tool)} for tool in tools]


def _tools(spec: ConstraintSpec) -> Json:
    return {
        "tools": tools_of(spec.tools),
        "tool_choice": "required",
        "parallel_tool_calls": spec.max_calls > 1,
    }


def _only_calls(spec: ConstraintSpec) -> bool:
    """`tool_choice` has neither a final answer nor a number of calls other than "some"."""
    return not spec.source and not spec.text and spec.min_calls == 1


def _no_text(spec: ConstraintSpec) -> bool:
    """A schema of the whole text leaves no room for text around calls."""
    return not spec.text


def _calls_as_json(spec: ConstraintSpec) -> Json:
    """Calls as an array in the text, for a server that enforces schemas only."""
    calls = {
        "type": "array",
        "items": {"anyOf": [_call_schema(tool) for tool in spec.tools]},
        "minItems": spec.min_calls,
        "maxItems": spec.max_calls,
    }
    if not spec.source:
        return _response_format(calls)
    return _response_format({"anyOf": [calls, json.loads(spec.source)]})


def _call_schema(tool: ToolSchema) -> Json:
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": tool.parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


DIALECTS: Mapping[ConstraintKind, Sequence[ConstraintDialect]] = {
    "json": (ConstraintDialect("response_format", _json_schema),),
    "choice": (
        ConstraintDialect("structured_outputs.choice", _structured("choice")),
        ConstraintDialect("guided_choice", _field("guided_choice")),
        ConstraintDialect("grammar", _gbnf_choice),
    ),
    "regex": (
        ConstraintDialect("structured_outputs.regex", _structured("regex")),
        ConstraintDialect("guided_regex", _field("guided_regex")),
        ConstraintDialect("regex", _field("regex")),
    ),
    "grammar": (
        ConstraintDialect("structured_outputs.grammar", _structured("grammar")),
        ConstraintDialect("guided_grammar", _field("guided_grammar")),
    ),
    "calls": (
        ConstraintDialect("tools", _tools, covers=_only_calls),
        ConstraintDialect(
            "response_format with calls", _calls_as_json, compact=True, covers=_no_text
        ),
    ),
}


def dialect_for(
    spec: ConstraintSpec, proven: Mapping[ConstraintKind, Sequence[ConstraintDialect]], where: str
) -> ConstraintDialect:
    """The surest proven dialect for `spec`.

    Raises:
        Unsupported: The server does not enforce it.
    """
    dialects = proven.get(spec.kind, ())
    for dialect in dialects:
        if dialect.covers is None or dialect.covers(spec):
            return dialect
    if dialects:
        what = "text or a final answer beside the calls, or a least number of them"
    else:
        what = f"a {spec.kind} constraint"
    raise Unsupported(
        f"{where} does not enforce {what}",
        hint="Use the embedded engine, or a server with structured outputs (vLLM, llama.cpp)",
    )


def tools_instruction(tools: Sequence[ToolSchema], *, final: bool) -> str:
    """Instruction to the model, if calls are written into the text."""
    listed = canonical_json.dumps([function_of(tool) for tool in tools])
    answer = " or, when you know the answer, with the answer as JSON" if final else ""
    return (
        f"You can call these tools: {listed}\nReply with a JSON array of calls, each "
        f'{{"name":...,"arguments":{{...}}}}{answer}.'
    )
