"""Static scan: constraints, tools and chats that the code of a program names.

Nothing of the program is run. The result is a guess: what it misses is made when it is needed, and
what it names in vain costs only time of an idle thread.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Literal, get_origin

from typing_extensions import is_typeddict

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import UsageError
from agentrt.base.segments import ToolSchema
from agentrt.program.chat import Chat
from agentrt.program.output import OutputSpec, calls_of, items_of, step_of, value_of
from agentrt.program.program import Program
from agentrt.program.tool import Tool

MOST_FORMS = 32
"""Types of one program; code that names more has other uses for them."""

Toolset = tuple[Tool[..., Any], ...]


@dataclass(frozen=True, slots=True)
class ProgramScan:
    """The constraints, tools and chats that a program may use.

    Attributes:
        constraints: Constraints of its outputs.
        toolsets: Schemas of tools that it may offer together.
        chats: Chats that it may continue.
    """

    constraints: tuple[ConstraintSpec, ...]
    toolsets: tuple[tuple[ToolSchema, ...], ...]
    chats: tuple[Chat, ...]


def scan_program(program: Program[..., Any]) -> ProgramScan:
    """Scan the code of a program; faults in it are left for its run to report."""
    code = _Code()
    code.read(program.fn)
    toolsets = [found for one in code.toolsets for found in _bound(one, code)]
    constraints: list[ConstraintSpec] = []
    for output in (*_outputs(code), *_plans(code, toolsets)):
        constraint = _constraint_of(output)
        if constraint is not None and not constraint.holes and constraint not in constraints:
            constraints.append(constraint)
    return ProgramScan(
        tuple(constraints),
        tuple(schemas for one in toolsets if (schemas := _schemas(one))),
        tuple(code.chats),
    )


def _constraint_of(output: OutputSpec) -> ConstraintSpec | None:
    """The constraint of an output, with all options that are declared."""
    if output.late is None or not output.late.is_declared:
        return output.constraint
    output.late.fill()
    return output.constraint if output.late.has_failed else output.late.known


class _Code:
    """The names in a function, and in the programs and functions of its module that it calls.

    Attributes:
        names: Names of attributes and globals.
        keywords: Names of arguments that are given together in some call.
        forms: Types of data.
        toolsets: Tools that stand together, and those that stand alone.
        chats: Chats.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.keywords: set[tuple[str, ...]] = set()
        self.forms: list[Any] = []
        self.toolsets: list[Toolset] = []
        self.chats: list[Chat] = []
        self._seen: set[int] = set()

    def read(self, fn: Any) -> None:
        """Scan a function."""
        alone: list[Tool[..., Any]] = []
        for code in _nested(fn.__code__):
            self.names.update(code.co_names)
            for constant in code.co_consts:
                if isinstance(constant, tuple) and all(isinstance(one, str) for one in constant):
                    self.keywords.add(constant)
            for name in code.co_names:
                self._add_value(fn.__globals__.get(name), fn, alone)
        for cell in fn.__closure__ or ():
            try:
                self._add_value(cell.cell_contents, fn, alone)
            except ValueError:
                continue  # a variable without a value yet
        if alone:
            self.toolsets.append(tuple(alone))

    def _add_value(self, value: Any, fn: Any, alone: list[Tool[..., Any]]) -> None:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, Tool):
            alone.append(value)
        elif isinstance(value, Chat):
            self.chats.append(value)
        elif isinstance(value, tuple | list):
            if value and all(isinstance(one, Tool) for one in value):
                self.toolsets.append(tuple(value))
        elif isinstance(value, Program):
            self.read(value.fn)
        elif isinstance(value, FunctionType):
            if value.__module__ == fn.__module__:
                self.read(value)
        elif _is_data(value) and len(self.forms) < MOST_FORMS:
            self.forms.append(value)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _is_data(value: Any) -> bool:
    """Whether a value is a type that is made for data."""
    if not isinstance(value, type):
        return get_origin(value) is Literal
    return (
        dataclasses.is_dataclass(value)
        or hasattr(value, "model_fields")  # pydantic's, which need not be imported for this
        or issubclass(value, enum.Enum)
        or is_typeddict(value)
    )


def _bound(tools: Toolset, code: _Code) -> Iterator[Toolset]:
    """The tools with arguments fixed that the code names together, else as they are."""
    if "bind" in code.names:
        for names in sorted(code.keywords):
            try:
                yield tuple(tool.bind(**dict.fromkeys(names)) for tool in tools) if names else tools
            except UsageError:
                continue  # names of other things
            return
    yield tools


def _outputs(code: _Code) -> Iterator[OutputSpec]:
    for form in code.forms:
        for name, output_of in (("generate", value_of), ("each", items_of)):
            if name in code.names:
                try:
                    yield output_of(form)
                except Exception:  # the use of the type will raise it
                    continue


def _plans(code: _Code, toolsets: list[Toolset]) -> Iterator[OutputSpec]:
    for tools in toolsets:
        try:
            if "calls" in code.names:
                yield calls_of(tools)
            if "step" in code.names:
                for form in code.forms or (str,):
                    yield step_of(tools, form)
        except Exception:  # the same
            continue


def _schemas(tools: Toolset) -> tuple[ToolSchema, ...]:
    try:
        return tuple(tool.spec.schema for tool in tools)
    except Exception:  # the same
        return ()
