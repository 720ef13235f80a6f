"""Forms of a constraint in a request: the chain of them for one server, the surest first.

The server's own dialect comes first, then JSON Schema, then tool calls. The last form is an
instruction in words, whose answer is checked. Only forms that are known to be enforced are trusted;
the answer to any other one is checked as a whole before any of it is handed on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from agentrt.base import canonical_json
from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.errors import Unsupported
from agentrt.base.record import record
from agentrt.base.segments import ToolSchema
from agentrt.prompt.message_form import function_of
from agentrt.remote.constraints.constraint_dialects import (
    STRICT_TOOLS,
    ConstraintDialect,
    calls_schema,
    function_call,
)
from agentrt.remote.constraints.json_filters import WRAPPER
from agentrt.remote.constraints.requested_output import OutputSchema, RequestedOutput, ToolOffer
from agentrt.remote.constraints.strict_schema import strict_schema

Json = dict[str, Any]


class ConstraintSupport(Protocol):
    """Knowledge of a server that decides about forms."""

    @property
    def where(self) -> str:
        """Address, for messages."""

    @property
    def proven(self) -> Mapping[ConstraintKind, Sequence[ConstraintDialect]]:
        """Dialects that it enforces."""

    @property
    def takes_any_schema(self) -> bool:
        """Whether it takes all of JSON Schema, not only the subset of hosted APIs."""

    @property
    def takes_bounds(self) -> bool:
        """Whether that subset may have lengths, ranges and patterns."""

    @property
    def takes_loose_schemas(self) -> bool:
        """Whether it takes a schema that the model is not held to."""


@record
class AnswerReading:
    """How the text of an answer is taken out of its form.

    Attributes:
        compact: Whether white space between JSON tokens is left out.
        wrapped: Whether the value is the only member of an object.
        absent: Names of members for which null stands for absence.
        is_string: Whether the answer is a JSON string that stands for its text.
        from_text: Whether a text without calls stands for the JSON string of it.
        by_call: Whether the answer is the arguments of a call.
    """

    compact: bool = False
    wrapped: bool = False
    absent: frozenset[str] = frozenset()
    is_string: bool = False
    from_text: bool = False
    by_call: bool = False


AS_IT_IS = AnswerReading()
FREE = RequestedOutput()


@record
class ConstraintForm:
    """One form of one constraint.

    Attributes:
        name: Name for people and traces.
        output: The output that the request asks for.
        enforced: Whether the server holds the model to the whole constraint; else the answer is
            checked before any of it is handed on.
        dropped: Keywords that the server is not told, and that are only checked.
        reading: How the answer is taken out of it.
        instruction: Words for the model, at the end of the system message.
        hides_tools: Whether tools are described in words, not offered by the API.
    """

    name: str
    output: RequestedOutput
    enforced: bool
    dropped: tuple[str, ...] = ()
    reading: AnswerReading = AS_IT_IS
    instruction: str = ""
    hides_tools: bool = False


def forms_for(
    spec: ConstraintSpec, server: ConstraintSupport, tools: Sequence[ToolSchema] = ()
) -> tuple[ConstraintForm, ...]:
    """The forms of `spec` for a server, the surest first; at least one.

    Args:
        spec: The constraint.
        server: The server.
        tools: Tools that the chat offers, with their descriptions.

    Raises:
        Unsupported: The server takes it in no form.
    """
    if spec.kind == "calls":
        found = tuple(_of_calls(_described(spec, tools), server))
    else:
        found = (*_of_text(spec, server, tools), _asked(spec))
    if not found:
        raise Unsupported(
            f"{server.where} is not known to take tools beside free text",
            hint="Leave text=True out, or use a server that takes tool calls",
        )
    return found


def _of_text(
    spec: ConstraintSpec, server: ConstraintSupport, tools: Sequence[ToolSchema]
) -> Iterator[ConstraintForm]:
    """Forms of anything but calls that are not just words."""
    if spec.kind == "json":
        yield from _of_schema("json", json.loads(spec.source), server, tools)
        return
    for dialect in server.proven.get(spec.kind, ()):
        yield ConstraintForm(dialect.name, dialect.output(spec), enforced=True)
    if spec.kind == "choice":
        for dialect in server.proven.get("regex", ()):
            output = dialect.output(regex_of(spec.options))
            yield ConstraintForm(dialect.name, output, enforced=True)
    schema: Json = {"type": "string"}
    if spec.kind == "choice":
        schema["enum"] = list(spec.options)
    elif spec.kind == "regex":
        schema["pattern"] = f"^(?:{spec.source})$"
    else:
        return
    for form in _of_schema(spec.kind, schema, server, tools):
        sure = form.enforced and spec.kind == "choice"
        yield replace(form, enforced=sure, reading=replace(form.reading, is_string=True))


def _of_schema(
    kind: str,
    schema: Json,
    server: ConstraintSupport,
    tools: Sequence[ToolSchema] = (),
    reading: AnswerReading = AS_IT_IS,
) -> Iterator[ConstraintForm]:
    """Forms of a JSON Schema: a response format, or the parameters of a tool."""
    by_schema = server.proven.get("json", ())
    name = by_schema[0].name if by_schema else ""
    if by_schema and server.takes_any_schema:
        output = RequestedOutput(OutputSchema(schema))
        yield ConstraintForm(name, output, True, reading=reading)
        return
    is_object = schema.get("type") == "object"
    whole = schema if is_object else _wrapped(schema)
    into = reading if is_object else replace(reading, compact=True, wrapped=True)
    if by_schema:
        yield from _strict(whole, server, name, into)
    if by_schema and server.takes_loose_schemas:
        output = RequestedOutput(OutputSchema(whole, strict=False))
        yield ConstraintForm(f"{name}, not strict", output, False, reading=into)
    if server.proven.get("calls") and kind != "calls":
        by_call = replace(into, compact=True, by_call=True)
        yield ConstraintForm("a tool call", function_call(whole, tools), False, reading=by_call)


def _strict(
    schema: Json, server: ConstraintSupport, field: str, reading: AnswerReading
) -> Iterator[ConstraintForm]:
    """The schema in the strict subset, with its bounds and without."""
    seen: Json = {}
    for bounds in (True, False) if server.takes_bounds else (False,):
        found = strict_schema(schema, bounds=bounds)
        if found is None or found.schema == seen:
            return
        seen, dropped = found.schema, found.dropped
        into = replace(reading, compact=True, absent=found.absent) if found.absent else reading
        output = RequestedOutput(OutputSchema(seen))
        yield ConstraintForm(f"{field}, strict", output, not dropped, dropped, into)


def _of_calls(spec: ConstraintSpec, server: ConstraintSupport) -> Iterator[ConstraintForm]:
    """Forms of tool calls, or of calls or a final answer."""
    takes_tools = bool(server.proven.get("calls"))
    only_calls = not spec.source and not spec.text and spec.min_calls == 1
    for dialect in server.proven.get("calls", ()) if only_calls else ():
        # Hosted APIs take only a subset of schemas in strict tools.
        if dialect.name != STRICT_TOOLS or server.takes_any_schema:
            yield ConstraintForm(dialect.name, dialect.output(spec), enforced=True)
    words = tools_instruction(spec.tools, final=bool(spec.source))
    if not spec.text:
        reading = AnswerReading(compact=True)
        for form in _of_schema("calls", calls_schema(spec), server, reading=reading):
            name = f"{form.name} with calls"
            yield replace(form, name=name, instruction=words, hides_tools=True)
    if takes_tools:
        output = RequestedOutput(tools=ToolOffer(tuple(spec.tools), "auto"))
        final = json.loads(spec.source) if spec.source else None
        is_text = isinstance(final, dict) and final.get("type") == "string"
        asks = "" if final is None or is_text else _FINAL.format(canonical_json.dumps(final))
        reading = AnswerReading(from_text=is_text)
        yield ConstraintForm(
            "tools, tool_choice auto", output, False, reading=reading, instruction=asks
        )
    if not spec.text:
        asks = words + (_FINAL.format(spec.source) if spec.source else "")
        reading = AnswerReading(compact=True)
        yield ConstraintForm("an instruction", FREE, False, (), reading, asks, hides_tools=True)


def _asked(spec: ConstraintSpec) -> ConstraintForm:
    """The last resort: words, and a check of the answer."""
    what = canonical_json.dumps(list(spec.options)) if spec.kind == "choice" else spec.source
    return ConstraintForm("an instruction", FREE, False, instruction=_WORDS[spec.kind].format(what))


_WORDS = {
    "json": "Answer with JSON alone, without a code fence, that fits this JSON Schema: {}",
    "choice": "Answer with exactly one of these texts, without quotes, and nothing else: {}",
    "regex": "Answer with a text that matches this regular expression as a whole, alone: {}",
    "grammar": "Answer with a text of this Lark grammar, and nothing else:\n{}",
}
_FINAL = "\nIf you call no tool, answer with JSON alone that fits this JSON Schema: {}"


def _wrapped(schema: Json) -> Json:
    """An object with a value of `schema` as its only member."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    found: Json = {
        "type": "object",
        "properties": {WRAPPER: inner},
        "required": [WRAPPER],
        "additionalProperties": False,
    }
    return found | ({"$defs": schema["$defs"]} if "$defs" in schema else {})


def regex_of(options: Sequence[str]) -> ConstraintSpec:
    """A choice as a regex, for servers that take no choices."""
    return ConstraintSpec("regex", "|".join(map(_literal, options)))


def _literal(text: str) -> str:
    """A regex of just this text, in the syntax that all dialects share."""
    return "".join(f"\\{char}" if char in r"\.+*?()|[]{}^$/-" else char for char in text)


def _described(spec: ConstraintSpec, listed: Sequence[ToolSchema]) -> ConstraintSpec:
    """The constraint as it is held, with the tools' descriptions, which only the prompt has."""
    from agentrt.structured import held_tools  # native libraries come along

    words = {tool.name: tool.description for tool in listed}
    held = [one.schema for one in held_tools(spec)]
    tools = tuple(replace(one, description=words.get(one.name, "")) for one in held)
    return replace(spec, tools=tools, is_raw=False)


def tools_instruction(tools: Sequence[ToolSchema], *, final: bool) -> str:
    """Instruction to the model, if calls are written into the text."""
    listed = canonical_json.dumps([function_of(tool) for tool in tools])
    answer = " or, when you know the answer, with the answer as JSON" if final else ""
    return (
        f"You can call these tools: {listed}\nReply with a JSON array of calls, each "
        f'{{"name":...,"arguments":{{...}}}}{answer}.'
    )
