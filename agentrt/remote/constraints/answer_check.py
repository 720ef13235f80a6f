"""Check of answers whose constraint a server is not known to enforce, and their shortest end.

JSON is checked as a value, so that blanks and the order of keys do not matter. Any other text is
followed byte by byte by the matcher that the embedded engine uses.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import JSON_ARRAY_FRAME as FRAME
from agentrt.base.segments import CallFrame
from agentrt.prompt.byte_vocabulary import byte_vocabulary
from agentrt.remote.constraints.json_filters import JsonCompactor

if TYPE_CHECKING:
    from agentrt.structured import CompileCache, CompiledConstraint, ConstraintState

MAX_CLOSING_BYTES = 4096
_SHOWN_CHARACTERS = 60


class AnswerCheck:
    """Checks and closes the answers of one server; its methods may take long, on any thread.

    Args:
        frame: Frame of tool calls in its answers.
    """

    def __init__(self, frame: CallFrame = FRAME) -> None:
        self._frame = frame
        self._cache: CompileCache | None = None

    def prepare(self, spec: ConstraintSpec) -> None:
        """Compile a constraint whose answers are followed byte by byte, before any is paid for.

        Raises:
            ConstraintError: The constraint does not compile.
        """
        if spec.kind in ("regex", "grammar"):
            self._compiled(spec)

    def complaint(self, spec: ConstraintSpec, text: str) -> str | None:
        """Why a whole answer does not obey; None if it does.

        Raises:
            ConstraintError: The constraint does not compile.
        """
        match spec.kind:
            case "json":
                return _json_complaint(json.loads(spec.source), text)
            case "choice":
                return None if text in spec.options else f"{_shown(text)} is none of the options"
            case "calls" if self._frame == FRAME:
                return _calls_complaint(spec, text)
        data = text.encode("utf-8", "replace")
        state = self._compiled(spec).start()
        taken = state.advance(data)
        if taken < len(data):
            here = data[taken:].decode("utf-8", "replace")
            return f"it goes wrong at {_shown(here)}"
        return None if state.can_stop() else "it is not whole"

    def closing(self, spec: ConstraintSpec, text: str) -> str | None:
        """The shortest text that makes a whole answer of `text`; None if it begins no valid one."""
        is_json = spec.kind == "json" or (spec.kind == "calls" and self._frame == FRAME)
        begun = JsonCompactor().feed_text(text) if is_json and not spec.text else text
        try:
            compiled = self._compiled(replace(spec, style="compact"))
        except ConstraintError:
            return None
        state, data = compiled.start(), begun.encode("utf-8", "replace")
        if state.advance(data) < len(data):
            return None
        found = state.completion(MAX_CLOSING_BYTES)
        if found is None:
            found = _end_of_shortest(compiled, state)
        if found is None:
            return None
        end = bytes(found).decode("utf-8", "replace")
        if is_json and not spec.text and _value(text + end) != _value(begun + end):
            return None  # white space stands where the end goes on, as within a number
        return end

    def aclose(self) -> None:
        """End the threads of the compiler."""
        if self._cache is not None:
            self._cache.close()

    def _compiled(self, spec: ConstraintSpec) -> CompiledConstraint:
        from agentrt.structured import CompileCache  # native libraries come along

        self._cache = self._cache or CompileCache()
        return self._cache.get(spec, byte_vocabulary(), self._frame)


def _end_of_shortest(compiled: CompiledConstraint, state: ConstraintState) -> list[int] | None:
    """The shortest end of the shortest output that ends this text as well.

    A search from within free text may never meet what has to follow; the beginning of an output
    knows it.
    """
    shortest = compiled.shortest or ()
    tails = (shortest[start:] for start in reversed(range(len(shortest))))
    return next((list(tail) for tail in tails if state.reaches_end(tail)), None)


def _json_complaint(schema: Any, text: str) -> str | None:
    """Why a text is no JSON of a schema."""
    from agentrt.structured.json_schema.exact_check import read_written, unmet

    try:
        value = read_written(text)
    except (ValueError, RecursionError) as error:
        return f"it is no JSON: {error}"
    return unmet(schema, value)


def _calls_complaint(spec: ConstraintSpec, text: str) -> str | None:
    """Why a text is neither calls of the tools nor a final answer."""
    from agentrt.structured import CallScanner, held_tools
    from agentrt.structured.json_schema.exact_check import read_written, unmet

    scanner = CallScanner(FRAME)
    calls = scanner.feed_text(text)
    content = scanner.end_text()
    if not calls and (spec.source or (not spec.text and text.strip() != "[]")):
        if not spec.source:
            return f"{_shown(text)} is no array of calls"
        return _json_complaint(json.loads(spec.source), text)
    if not spec.text and (content.strip() or not isinstance(_value(text), list)):
        return f"{_shown(text)} is no array of calls, alone and whole"
    least = 0 if spec.text else spec.min_calls
    if not least <= len(calls) <= spec.max_calls:
        return f"it has {len(calls)} calls; {least} to {spec.max_calls} are allowed"
    schemas = {tool.schema.name: tool.schema.parameters for tool in held_tools(spec)}
    for call in calls:
        if call.name not in schemas:
            return f"there is no tool {call.name!r}; there are {', '.join(schemas)}"
        wrong = unmet(schemas[call.name], read_written(call.arguments_json))
        if wrong is not None:
            return f"the arguments of {call.name} do not fit: {wrong}"
    return None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _shown(text: str) -> str:
    cut = text[:_SHOWN_CHARACTERS]
    return f"{cut!r}" if cut == text else f"{cut!r}..."
