"""From what the author asks for to what the engine enforces and how it is read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from agentrt.base.canonical_json import dumps
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import UsageError
from agentrt.base.held_place import HeldPlace
from agentrt.base.json_style import JsonStyle
from agentrt.base.record import record
from agentrt.base.segments import ToolSchema
from agentrt.program.constraints import Constraint
from agentrt.program.late_constraint import LateConstraint
from agentrt.program.node import Node
from agentrt.program.output_types import array_for, checked_for, final_for, shape_for, styled
from agentrt.program.tags import Tags
from agentrt.program.tool import Tool

if TYPE_CHECKING:
    from agentrt.structured import Place, TagShape

MAX_CALLS = 32
_MAX_SPECS = 1024
_specs: dict[tuple[object, ...], tuple[ConstraintSpec, tuple[ToolSchema, ...]]] = {}
"""Constraints of calls by the identity of the tools' schemas, which are kept beside them."""
_values: dict[tuple[object, ...], OutputSpec] = {}
"""Outputs of types by the type, whether it is checked, and the style of its JSON."""
_MAX_DECLARED = 64
_declared: dict[tuple[int, ...], LateConstraint] = {}
"""Constraints of many declared options by the identity of what they are made of."""


@record
class OutputSpec:
    """The output of a generation, and how its text becomes a value.

    Attributes:
        kind: One value, a streamed array of items, a plan of calls, calls or a final value, text
            with tags, or `raw` text just as the model writes it, which is never refused.
        constraint: The constraint that the engine enforces; None leaves the text free.
        parse: Parses the whole text (`value`), one item (`items`) or the final answer (`step`).
        name: Name of a node that has no name of its own.
        tools: The tools by name, for `calls` and `step`.
        checked: Whether `parse` may refuse text that the constraint allows. Such a refusal is a
            failure of the model, which may answer again, not of the engine.
        keep_special: Whether the text of special tokens is part of the text, as calls may be.
        tags: The tags of `tagged`.
        min_tags: Minimum number of tags.
        late: The constraint with options that come later; None without any.
    """

    kind: Literal["value", "items", "calls", "step", "tagged", "raw"]
    constraint: ConstraintSpec | None
    parse: Callable[[str], Any]
    name: str
    tools: Mapping[str, Tool[..., Any]] = field(default_factory=dict)
    checked: bool = False
    keep_special: bool = False
    tags: tuple[TagShape, ...] = ()
    min_tags: int = 0
    late: LateConstraint | None = None

    @property
    def sources(self) -> tuple[Node[Any], ...]:
        """The nodes that give options."""
        return () if self.late is None else self.late.sources

    @property
    def is_text(self) -> bool:
        """Whether the value is the text as it was written, or most probably so."""
        from agentrt.structured.types.shape import gives_text

        is_one_value = self.kind == "value" and not self.checked
        return self.kind == "raw" or (is_one_value and gives_text(self.parse))

    @property
    def place(self) -> Place | None:
        """Place of the value in the text, if that is JSON of the value and is not checked."""
        from agentrt.structured import array_place, output_place

        if self.checked or self.kind not in ("value", "items"):
            return None
        return array_place(self.parse) if self.kind == "items" else output_place(self.parse)

    @property
    def known_constraint(self) -> ConstraintSpec | None:
        """The constraint with the options of the nodes, or with its holes; see `LateConstraint`.

        Raises:
            ConstraintError: An option has no JSON form, or is none of its type.
            Exception: The error of a node that has failed.
        """
        return self.constraint if self.late is None else self.late.known


def value_of(form: Any, *, check: bool = False, style: JsonStyle | None = None) -> OutputSpec:
    """One value of a type; with `check` also of one that cannot be enforced as a whole."""
    key = (type(form), form, check, style)
    try:
        known = _values.get(key)
    except TypeError:  # not hashable
        return _value_of(form, check, style)[0]
    if known is None:
        known, is_lasting = _value_of(form, check, style)
        if is_lasting:
            _values[key] = known
            if len(_values) > _MAX_SPECS:
                del _values[next(iter(_values))]
    return known


def _value_of(form: Any, check: bool, style: JsonStyle | None) -> tuple[OutputSpec, bool]:
    """One value of a type, and whether it is the same in every run."""
    shape = checked_for(form) if check else shape_for(form)
    if style is not None:
        shape = styled(form, shape, style)
    spec, late = _filled(shape.spec, shape.late)
    name, checked = _name(shape.name), shape.checked
    output = OutputSpec("value", spec, shape.parse, name, checked=checked, late=late)
    return output, not shape.late and not isinstance(form, Constraint)


def items_of(
    item: Any,
    min_items: int = 0,
    max_items: int | None = None,
    *,
    style: JsonStyle | None = None,
) -> OutputSpec:
    """A streamed array."""
    shape = array_for(item, min_items, max_items)
    if style is not None:
        shape = styled(item, shape, style)
    assert shape.item is not None, "an array has a shape for its items"
    spec, late = _filled(shape.spec, shape.late)
    return OutputSpec("items", spec, shape.item.parse, _name(shape.item.name), late=late)


def calls_of(
    tools: tuple[Tool[..., Any], ...], min_calls: int = 1, max_calls: int = MAX_CALLS
) -> OutputSpec:
    """A plan of calls."""
    by_name = _by_name(tools)
    spec, late = _calls_spec(tools, None, min_calls, max_calls, {})
    return OutputSpec("calls", spec, _no_value, "calls", by_name, keep_special=True, late=late)


def step_of(
    tools: tuple[Tool[..., Any], ...],
    final: Any,
    min_calls: int = 1,
    max_calls: int = MAX_CALLS,
    *,
    text: bool = False,
    style: JsonStyle | None = None,
) -> OutputSpec:
    """Calls or a final answer; with `text` free text, in which calls may stand."""
    by_name = _by_name(tools)
    if not text:
        shape = final_for(final)
        own = "compact" if shape.spec is None else shape.spec.style
        bounds = (min_calls, max_calls)
        spec, late = _calls_spec(tools, shape.schema, *bounds, shape.late, style=style or own)
        return OutputSpec("step", spec, shape.parse, "step", by_name, keep_special=True, late=late)
    if final is not str or min_calls > 1:
        raise UsageError(
            "text=True leaves no final answer but text, and no minimum number of calls",
            hint="Give final=str and leave min_calls out",
        )
    spec, late = _calls_spec(tools, None, 0, max_calls, {}, text=True)
    return OutputSpec("step", spec, str, "step", by_name, keep_special=True, late=late)


def tagged_of(tags: Tags[Any], min_tags: int, max_tags: int | None) -> OutputSpec:
    """Free text with tags."""
    spec = tags.spec(min_tags, max_tags)
    return OutputSpec("tagged", spec, str, "tagged", tags=tags.shapes, min_tags=min_tags)


def raw_text(name: str, constraint: ConstraintSpec | None, *, keep_special: bool) -> OutputSpec:
    """Text just as the model writes it, under a constraint or under none."""
    return OutputSpec("raw", constraint, str, name, keep_special=keep_special)


def _calls_spec(
    tools: tuple[Tool[..., Any], ...],
    final: dict[str, Any] | None,
    min_calls: int,
    max_calls: int,
    late: Mapping[str, HeldPlace],
    *,
    text: bool = False,
    style: JsonStyle = "compact",
) -> tuple[ConstraintSpec | None, LateConstraint | None]:
    """The constraint, remembered without options: a loop asks for the same one in every round."""
    schemas = tuple(tool.spec.held for tool in tools)
    late = {**late, **{name: one for tool in tools for name, one in tool.spec.late.items()}}
    named = ((one.name, id(one.parameters)) for one in schemas)
    key = (*named, dumps(final), min_calls, max_calls, text, style)
    known = _specs.get(key)
    if known is None:
        from agentrt.structured import calls_spec
        from agentrt.structured.types.late_options import with_holes

        counts, checks = (min_calls, max_calls), bool(late)  # options stand in checked schemas
        spec = calls_spec(schemas, final, *counts, text=text, style=style, checks_tools=checks)
        known = _specs[key] = (with_holes(spec, late), schemas)
        if len(_specs) > _MAX_SPECS:
            del _specs[next(iter(_specs))]
    return _filled(known[0], late)


def _filled(
    spec: ConstraintSpec | None, places: Mapping[str, HeldPlace]
) -> tuple[ConstraintSpec | None, LateConstraint | None]:
    """A constraint with its options if all are there and few, else with what is left to come."""
    if spec is None or not places:
        return spec, None
    late = _late(spec, places)
    if not all(source.done for source in late.sources):
        return spec, late
    known = late.known
    return (known, late) if known.holes else (known, None)


def _late(spec: ConstraintSpec, places: Mapping[str, HeldPlace]) -> LateConstraint:
    """A constraint with options that come later; if all are declared, it is filled for all runs."""
    late = LateConstraint(spec, places)
    if not late.is_declared:
        return late
    key = (id(spec), *map(id, places.values()))
    known = _declared.get(key)
    if known is None or known.has_failed:  # an error names the place in its program
        known = _declared[key] = late
        if len(_declared) > _MAX_DECLARED:
            del _declared[next(iter(_declared))]
    return known


def _by_name(tools: tuple[Tool[..., Any], ...]) -> dict[str, Tool[..., Any]]:
    by_name = {tool.name: tool for tool in tools}
    if not tools or len(by_name) != len(tools):
        names = dumps([tool.name for tool in tools])
        raise UsageError(
            f"the tools {names} cannot be offered", hint="Give one or more, with different names"
        )
    return by_name


def _name(name: str) -> str:
    """Name of a node for a type; the words of a `Literal` are content, and names are not."""
    begin, literal, _ = name.partition("Literal[")
    name = f"{begin}Literal{']' * begin.count('[')}" if literal else name
    return name.replace("/", "|").replace("#", "")


def _no_value(text: str) -> Any:
    raise ValueError(f"a plan holds calls only, not {text!r}")
