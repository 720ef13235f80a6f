"""Tool calls as a constraint: the schema of each tool's arguments, checked and narrowed."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.json_style import JsonStyle, styled_json
from agentrt.base.segments import ToolSchema
from agentrt.structured.json_schema.compile_cost import may_take_long
from agentrt.structured.json_schema.declaration import json_spec, normal_form
from agentrt.structured.json_schema.drafts import modernize
from agentrt.structured.json_schema.json_grammar import check_style
from agentrt.structured.json_schema.limits import check_schema

MAX_TOOLS = 512
MAX_CALLS = 1024
MAX_HELD = 4096
"""Tools that are kept as they were checked."""

MAX_READ_CHARACTERS = 6_000
"""Length of schemas that are read on the caller's thread, which takes 2 to 3 ms."""


def calls_spec(
    tools: Sequence[ToolSchema],
    final_schema: dict[str, Any] | None = None,
    min_calls: int = 1,
    max_calls: int = 32,
    *,
    text: bool = False,
    style: JsonStyle = "compact",
    checks_tools: bool = True,
) -> ConstraintSpec:
    """The constraint "call these tools", or answer by `final_schema` if that is given.

    Args:
        tools: Tools offered; their arguments are narrowed to what a model should write.
        final_schema: JSON Schema of an answer instead of calls.
        min_calls: Minimum number of calls; 0 allows none at all.
        max_calls: Maximum number of calls.
        text: Whether free text may stand around the calls; then `min_calls` is 0.
        style: Style of the final answer.
        checks_tools: Whether to check and narrow the tools here, which takes about a millisecond
            for each new one; else only what is quick to see in a few of them, and the compiler
            does the rest, on a thread of its own.

    Raises:
        ConstraintError: A schema cannot be enforced, or the counts are contradictory.
    """
    if not 0 <= min_calls <= max_calls or not 1 <= max_calls <= MAX_CALLS:
        raise ConstraintError(
            f"min_calls={min_calls}, max_calls={max_calls}",
            hint=f"Give 0 <= min_calls <= max_calls <= {MAX_CALLS}",
        )
    if text and (min_calls or final_schema is not None):
        raise ConstraintError(
            "free text around calls leaves neither a number of calls nor a final answer to enforce",
            hint="Give min_calls=0 and no final_schema",
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
        check_style(narrowed, style)
        final = json_spec(narrowed, is_part=True).source
    offered = tuple(ToolSchema(tool.name, "", tool.parameters) for tool in tools)
    if checks_tools:
        offered = tuple(_HELD.get(one, is_raw=True).schema for one in offered)
    else:
        _check_shapes(offered)
    return ConstraintSpec(
        "calls",
        source=final,
        tools=offered,
        min_calls=min_calls,
        max_calls=max_calls,
        text=text,
        style=style,
        is_raw=not checks_tools,
    )


@dataclass(frozen=True, slots=True, eq=False)
class HeldTool:
    """A tool with the schema to which its calls are held.

    Attributes:
        schema: The tool, its parameters in normal form and narrowed.
        source: The parameters as JSON.
        is_costly: Whether compiling it, or one of its masks, may take long.
    """

    schema: ToolSchema
    source: str
    is_costly: bool


def held_tools(spec: ConstraintSpec) -> tuple[HeldTool, ...]:
    """The tools of a spec, checked and narrowed; each schema is worked out once.

    Raises:
        ConstraintError: A schema cannot be enforced; the message names the tool.
    """
    return tuple(_HELD.get(tool, is_raw=spec.is_raw) for tool in spec.tools)


def _check_shapes(tools: Sequence[ToolSchema]) -> None:
    """Refuse malformed schemas among the first new ones, without native code.

    Raises:
        ConstraintError: A schema is malformed; the message names the tool.
    """
    left = MAX_READ_CHARACTERS
    for tool in tools:
        left -= _HELD.check_shape(tool, left)
        if left <= 0:
            return


def parameter_digests(tools: Sequence[ToolSchema]) -> list[bytes]:
    """Digests of the parameters of tools, each worked out once."""
    return list(map(_HELD.digest, tools))


class _HeldTools:
    """Tools that were checked; the last ones are kept. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._digests: OrderedDict[int, tuple[object, bytes]] = OrderedDict()
        self._shaped: OrderedDict[int, object] = OrderedDict()
        self._by_object: OrderedDict[tuple[int, bool], tuple[object, HeldTool]] = OrderedDict()
        self._by_digest: OrderedDict[tuple[str, bytes, bool], HeldTool] = OrderedDict()

    def check_shape(self, tool: ToolSchema, most_characters: int) -> int:
        """Refuse a malformed schema, unless it is longer than `most_characters`.

        Returns:
            Length of the schema, 0 if it was read before.
        """
        parameters = tool.parameters
        with self._lock:
            if self._shaped.get(id(parameters)) is parameters:
                return 0
        text, _ = self._written(tool)
        try:
            if not text:
                raise ConstraintError("no JSON value", hint="Give a JSON Schema as a dict")
            if len(text) <= most_characters:
                schema = json.loads(text)
                modernize(schema)
                check_schema(schema)
        except ConstraintError as wrong:
            raise of_tool(tool, wrong) from None
        with self._lock:
            self._shaped[id(parameters)] = parameters
            if len(self._shaped) > MAX_HELD:
                self._shaped.popitem(last=False)
        return len(text)

    def digest(self, tool: ToolSchema) -> bytes:
        """The digest of a tool's parameters."""
        with self._lock:
            parameters, known = self._digests.get(id(tool.parameters), (None, b""))
        if known and parameters is tool.parameters:
            return known
        return self._written(tool)[1]

    def _written(self, tool: ToolSchema) -> tuple[str, bytes]:
        """The parameters as JSON, with their digest, which is kept."""
        text = _text_of(tool)
        found = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=32).digest()
        with self._lock:
            self._digests[id(tool.parameters)] = (tool.parameters, found)
            if len(self._digests) > MAX_HELD:
                self._digests.popitem(last=False)
        return text, found

    def get(self, tool: ToolSchema, *, is_raw: bool) -> HeldTool:
        place = (id(tool.parameters), is_raw)
        with self._lock:
            parameters, known = self._by_object.get(place, (None, None))
            if known and parameters is tool.parameters and known.schema.name == tool.name:
                return known
        same = (tool.name, self.digest(tool), is_raw)
        with self._lock:
            found = self._by_digest.get(same)
        if found is None:
            found = _held(tool, is_raw=is_raw)
        with self._lock:
            self._by_digest[same] = found
            self._by_object[place] = (tool.parameters, found)
            if len(self._by_object) > MAX_HELD:
                self._by_object.popitem(last=False)
            if len(self._by_digest) > MAX_HELD:
                self._by_digest.popitem(last=False)
        return found


_HELD = _HeldTools()


def _text_of(tool: ToolSchema) -> str:
    """The parameters as JSON; "" for what is no JSON, which is refused."""
    try:
        return styled_json(tool.parameters)
    except (TypeError, ValueError, RecursionError):
        return ""


def _held(tool: ToolSchema, *, is_raw: bool) -> HeldTool:
    if is_raw:
        try:
            parameters = normal_form(tool.parameters, "arguments", narrow=True)
            json_spec(parameters, is_part=True)
        except ConstraintError as wrong:
            raise of_tool(tool, wrong) from None
        tool = ToolSchema(tool.name, "", parameters)
    source = _text_of(tool)
    return HeldTool(tool, source, may_take_long(ConstraintSpec("json", source)))


def of_tool(tool: ToolSchema, wrong: ConstraintError) -> ConstraintError:
    """The same error, with the name of the tool."""
    return ConstraintError(
        f"tool {tool.name}: {wrong.message}",
        pointer=wrong.pointer,
        keyword=wrong.keyword,
        hint=wrong.hint,
    )
