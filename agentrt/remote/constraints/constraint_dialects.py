"""Constraint dialects: fields of requests by which servers take structured outputs.

`probe` finds out which of them a server really enforces, with constraints that no model would
satisfy by chance.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.record import record
from agentrt.base.segments import ToolSchema
from agentrt.remote.constraints.requested_output import OutputSchema, RequestedOutput, ToolOffer

Json = dict[str, Any]

ANSWER = "give_answer"
STRICT_TOOLS = "tools, strict"
_DEFINITIONS = "#/$defs/"


@record
class ConstraintDialect:
    """One field, or set of fields, for one kind of constraint.

    Attributes:
        name: Name for people: the field that carries it.
        output: The output that it asks for.
        protocol: Protocol that has the field; "" if all have one.
    """

    name: str
    output: Callable[[ConstraintSpec], RequestedOutput]
    protocol: str = "chat_completions"


def _json_schema(spec: ConstraintSpec) -> RequestedOutput:
    return RequestedOutput(OutputSchema(json.loads(spec.source)))


def _structured(key: str) -> Callable[[ConstraintSpec], RequestedOutput]:
    """Field of vLLM and of agentrt's own server."""
    return lambda spec: RequestedOutput(own={"structured_outputs": {key: _value(spec)}})


def _field(key: str) -> Callable[[ConstraintSpec], RequestedOutput]:
    return lambda spec: RequestedOutput(own={key: _value(spec)})


def _value(spec: ConstraintSpec) -> Any:
    return list(spec.options) if spec.kind == "choice" else spec.source


def _gbnf_choice(spec: ConstraintSpec) -> RequestedOutput:
    """llama.cpp has its own grammar notation (GBNF); a choice is one rule of literals."""
    literals = (json.dumps(option, ensure_ascii=False) for option in spec.options)
    return RequestedOutput(own={"grammar": f"root ::= {' | '.join(literals)}"})


def function_call(parameters: Json, tools: Sequence[ToolSchema]) -> RequestedOutput:
    """Output by a call of one function, whose arguments are the answer.

    Args:
        parameters: Schema of the answer.
        tools: Tools that the chat offers; they stay listed.
    """
    answer = ToolSchema(ANSWER, "Give the answer.", parameters)
    listed = (*(tool for tool in tools if tool.name != ANSWER), answer)
    return RequestedOutput(tools=ToolOffer(listed, "named", ANSWER))


def required_calls(spec: ConstraintSpec) -> RequestedOutput:
    """Output of one or more calls."""
    offer = ToolOffer(tuple(spec.tools), "required", parallel=spec.max_calls > 1)
    return RequestedOutput(tools=offer)


def strict_calls(spec: ConstraintSpec) -> RequestedOutput:
    """The same with tools marked strict: vLLM holds the arguments of no others to a schema."""
    offer = ToolOffer(tuple(spec.tools), "required", parallel=spec.max_calls > 1, strict=True)
    return RequestedOutput(tools=offer)


def calls_schema(spec: ConstraintSpec) -> Json:
    """The schema of calls as an array, or of a final answer in place of them."""
    definitions: Json = {}
    items = [_call_schema(tool, index, definitions) for index, tool in enumerate(spec.tools)]
    found: Json = {
        "type": "array",
        "items": {"anyOf": items},
        "minItems": spec.min_calls,
        "maxItems": spec.max_calls,
    }
    if spec.source:
        found = {"anyOf": [found, _hoisted(json.loads(spec.source), "final_", definitions)]}
    return found | ({"$defs": definitions} if definitions else {})


def _call_schema(tool: ToolSchema, index: int, definitions: Json) -> Json:
    parameters = _hoisted(tool.parameters, f"tool{index}_", definitions)
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": parameters},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _hoisted(schema: Any, prefix: str, definitions: Json) -> Any:
    """A schema as part of another one: its definitions move to the root, under other names."""
    if not isinstance(schema, dict) or "$defs" not in schema:
        return schema
    for name, one in schema["$defs"].items():
        definitions[prefix + name] = _renamed(one, prefix)
    return _renamed({key: one for key, one in schema.items() if key != "$defs"}, prefix)


def _renamed(part: Any, prefix: str) -> Any:
    """A part of a schema whose references name definitions with `prefix`."""
    if isinstance(part, list):
        return [_renamed(one, prefix) for one in part]
    if not isinstance(part, dict):
        return part
    found = {key: _renamed(one, prefix) for key, one in part.items()}
    ref = part.get("$ref")
    if isinstance(ref, str) and ref.startswith(_DEFINITIONS):
        found["$ref"] = f"{_DEFINITIONS}{prefix}{ref.removeprefix(_DEFINITIONS)}"
    return found


DIALECTS: Mapping[ConstraintKind, Sequence[ConstraintDialect]] = {
    "json": (
        ConstraintDialect("response_format", _json_schema),
        ConstraintDialect("text.format", _json_schema, protocol="responses"),
        ConstraintDialect("output_config.format", _json_schema, protocol="messages"),
    ),
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
        ConstraintDialect(STRICT_TOOLS, strict_calls),
        ConstraintDialect("tools", required_calls, protocol=""),
        # Where prompts are ids: its format depends on the model's frame, see `structural_tag`.
        ConstraintDialect("structural_tag", lambda spec: RequestedOutput(), protocol="completions"),
    ),
}


def dialects_named(
    names: Mapping[ConstraintKind, Sequence[str]],
) -> dict[ConstraintKind, tuple[ConstraintDialect, ...]]:
    """The dialects of these names, by kind of constraint.

    Raises:
        KeyError: There is no such dialect.
    """
    known = {kind: {one.name: one for one in dialects} for kind, dialects in DIALECTS.items()}
    return {kind: tuple(known[kind][name] for name in found) for kind, found in names.items()}
