"""What a program will likely ask for, told by what its code names. Nothing of it is run.

A guess: what is missed is made when it is asked for, as ever; what is never asked for took time
that nobody waited for.
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
"""Types of one program; what names more has other uses for them."""

Toolset = tuple[Tool[..., Any], ...]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a program may ask for.

    Attributes:
        constraints: Of its outputs.
        toolsets: Schemas of tools that it may offer together.
        chats: That it may go on from.
    """

    constraints: tuple[ConstraintSpec, ...]
    toolsets: tuple[tuple[ToolSchema, ...], ...]
    chats: tuple[Chat, ...]


def foreseen(program: Program[..., Any]) -> Foreseen:
    """Look at what the code of a program names; what is wrong with that shows where it is used."""
    code = _Code()
    code.read(program.fn)
    toolsets = [found for one in code.toolsets for found in _bound(one, code)]
    constraints: list[ConstraintSpec] = []
    for output in (*_outputs(code), *_plans(code, toolsets)):
        if output.constraint is not None and output.constraint not in constraints:
            constraints.append(output.constraint)
    return Foreseen(
        tuple(constraints),
        tuple(schemas for one in toolsets if (schemas := _schemas(one))),
        tuple(code.chats),
    )


class _Code:
    """What a function names, and the programs and functions of its module that it calls.

    Attributes:
        names: Attributes and globals.
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
        """Take in a function."""
        alone: list[Tool[..., Any]] = []
        for code in _nested(fn.__code__):
            self.names.update(code.co_names)
            for constant in code.co_consts:
                if isinstance(constant, tuple) and all(isinstance(one, str) for one in constant):
                    self.keywords.add(constant)
            for name in code.co_names:
                self._meet(fn.__globals__.get(name), fn, alone)
        for cell in fn.__closure__ or ():
            try:
                self._meet(cell.cell_contents, fn, alone)
            except ValueError:
                continue  # a variable that has no value yet
        if alone:
            self.toolsets.append(tuple(alone))

    def _meet(self, value: Any, fn: Any, alone: list[Tool[..., Any]]) -> None:
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
    """Whether a value is a type that somebody has made for data."""
    if not isinstance(value, type):
        return get_origin(value) is Literal
    return (
        dataclasses.is_dataclass(value)
        or hasattr(value, "model_fields")  # pydantic's, which need not be imported for this
        or issubclass(value, enum.Enum)
        or is_typeddict(value)
    )


def _bound(tools: Toolset, code: _Code) -> Iterator[Toolset]:
    """The tools with those arguments fixed whose names the code gives together, and as they are."""
    if "bind" in code.names:
        for names in sorted(code.keywords):
            try:
                yield tuple(tool.bind(**dict.fromkeys(names)) for tool in tools) if names else tools
            except UsageError:
                continue  # names of something else
            return
    yield tools


def _outputs(code: _Code) -> Iterator[OutputSpec]:
    for form in code.forms:
        for name, output_of in (("generate", value_of), ("each", items_of)):
            if name in code.names:
                try:
                    yield output_of(form)
                except Exception:  # whatever a type of somebody raises, it does when it is used
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
