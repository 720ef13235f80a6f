"""Tool calls as a constraint: the model's own call frame around each tool's argument schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import CallFrame, ToolSchema
from agentrt.structured.closing.example_text import shortest_instance
from agentrt.structured.json_schema.declaration import json_spec, normal_form
from agentrt.structured.json_schema.json_grammar import json_part
from agentrt.structured.json_schema.lark_text import spelled

MAX_TOOLS = 512
MAX_CALLS = 1024


def calls_spec(
    tools: Sequence[ToolSchema],
    final_schema: dict[str, Any] | None = None,
    min_calls: int = 1,
    max_calls: int = 32,
) -> ConstraintSpec:
    """The constraint "call these tools", or answer by `final_schema` if that is given.

    Args:
        tools: Tools offered; their arguments are narrowed to what a model should write.
        final_schema: JSON Schema of an answer instead of calls.
        min_calls: Minimum number of calls; 0 allows none at all.
        max_calls: Maximum number of calls.

    Raises:
        ConstraintError: A schema cannot be enforced, or the counts are contradictory.
    """
    if not 0 <= min_calls <= max_calls or not 1 <= max_calls <= MAX_CALLS:
        raise ConstraintError(
            f"min_calls={min_calls}, max_calls={max_calls}",
            hint=f"Give 0 <= min_calls <= max_calls <= {MAX_CALLS}",
        )
    if not tools and final_schema is None:
        raise ConstraintError("no tools to call", hint="Give one or more tools")
    if len(tools) > MAX_TOOLS:
        raise ConstraintError(f"{len(tools)} tools", hint=f"At most {MAX_TOOLS} are allowed")
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        raise ConstraintError("two tools have one name", hint="Rename one of them")
    final = ""
    if final_schema is not None:
        narrowed = normal_form(final_schema, "final answer", narrow=True)
        final = json_spec(narrowed, is_part=True).source
    offered = tuple(_checked(tool) for tool in tools)
    return ConstraintSpec(
        "calls", source=final, tools=offered, min_calls=min_calls, max_calls=max_calls
    )


def calls_lark(
    spec: ConstraintSpec, frame: CallFrame, special_ids: dict[str, int], *, exact: bool = True
) -> str:
    """The Lark grammar of a `calls` constraint in a model's frame.

    Args:
        spec: Spec of kind `calls`.
        frame: Frame of the model's calls.
        special_ids: Ids of special tokens, which are not text in the grammar.
        exact: Whether numbers are written as rules; see `json_grammar`.
    """
    tokens = {text: special_ids[text] for text in frame.special if text in special_ids}
    rules: list[str] = []
    if spec.tools:
        rules.append(f"start: {'calls | final' if spec.source else 'calls'}")
        rules.append(f"calls: {_list_of_calls(spec, frame, tokens)}")
        rules.append("call: " + " | ".join(f"call_{i}" for i in range(len(spec.tools))))
    else:
        rules.append("start: final")
    for index, tool in enumerate(spec.tools):
        opening = literal(frame.before + _in_json(tool.name) + frame.middle, tokens)
        closing = literal(frame.after, tokens)
        arguments = json_part(tool.parameters, f"t{index}_", exact=exact)
        rules.append(f"call_{index}: {opening} {arguments.expression} {closing}")
        rules += arguments.rules
    if spec.source:
        final = json_part(json.loads(spec.source), "final_", exact=exact)
        rules.append(f"final: {final.expression}")
        rules += final.rules
    return "\n".join(rules) + "\n"


def shortest_calls(
    spec: ConstraintSpec, frame: CallFrame, special_ids: dict[str, int]
) -> list[str | int] | None:
    """The shortest output found: pieces of text and ids of special tokens."""
    tokens = {text: special_ids[text] for text in frame.special if text in special_ids}
    texts = [_call_text(tool, frame) for tool in spec.tools]
    complete: list[str] = []
    if spec.tools and None not in texts:
        one = min((text for text in texts if text is not None), key=len)
        count = max(spec.min_calls, 1)
        complete.append(frame.first + frame.between.join([one] * count) + frame.last)
    if spec.tools and spec.min_calls == 0:
        complete.append(frame.first + frame.last)
    final = shortest_instance(json.loads(spec.source)) if spec.source else None
    if final is not None:
        complete.append(final)
    return pieces(min(complete, key=len), tokens) if complete else None


def _call_text(tool: ToolSchema, frame: CallFrame) -> str | None:
    arguments = shortest_instance(tool.parameters)
    if arguments is None:
        return None
    return frame.before + _in_json(tool.name) + frame.middle + arguments + frame.after


def pieces(text: str, tokens: dict[str, int]) -> list[str | int]:
    """`text` cut at its special tokens, which become ids."""
    found: list[str | int] = []
    rest = text
    while rest:
        positions = [(rest.find(token), -len(token), token) for token in tokens if token in rest]
        if not positions:
            found.append(rest)
            break
        at, _, token = min(positions)
        if at:
            found.append(rest[:at])
        found.append(tokens[token])
        rest = rest[at + len(token) :]
    return found


def literal(text: str, tokens: dict[str, int]) -> str:
    """`text` as Lark: special tokens by id, the rest as strings; "" for no text."""
    return spelled(pieces(text, tokens))


def _list_of_calls(spec: ConstraintSpec, frame: CallFrame, tokens: dict[str, int]) -> str:
    between = literal(frame.between, tokens)
    again = f"({between} call)" if between else "call"
    fewest = max(spec.min_calls, 1)
    calls = f"call {again}{{{fewest - 1},{spec.max_calls - 1}}}" if spec.max_calls > 1 else "call"
    first, last = literal(frame.first, tokens), literal(frame.last, tokens)
    if spec.min_calls > 0:
        return f"{first} {calls} {last}".strip()
    if first or last:
        return f"{first} ({calls})? {last}".strip()
    return f"({calls})?"


def _checked(tool: ToolSchema) -> ToolSchema:
    try:
        parameters = normal_form(tool.parameters, "arguments", narrow=True)
        json_spec(parameters, is_part=True)
    except ConstraintError as wrong:
        raise ConstraintError(
            f"tool {tool.name}: {wrong.message}",
            pointer=wrong.pointer,
            keyword=wrong.keyword,
            hint=wrong.hint,
        ) from None
    return ToolSchema(tool.name, "", parameters)


def _in_json(name: str) -> str:
    """A name as written inside a JSON string."""
    return json.dumps(name, ensure_ascii=False)[1:-1]
