"""Sandbox of chat templates: plain values, and every operation counted before it runs."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from agentrt.prompt.template_code import MeteredCode
from agentrt.prompt.template_meter import TemplateMeter, parts_of
from agentrt.prompt.template_rules import (
    CONSUMING_FILTERS,
    FILTERS,
    LINEAR_METHODS,
    TEXT_FILTERS,
    count_filter,
    count_method,
)

MAX_INTEGER_BITS = 4_096
_PLAIN = (str, bytes, int, float, list, dict, tuple, set, frozenset, type)
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
}
_COMPARING_TESTS = (
    *("==", "eq", "equalto", "!=", "ne", "<", "lt", "lessthan"),
    *("<=", "le", ">", "gt", "greaterthan", ">=", "ge"),
)


class GenerationBlock(Extension):
    """`{% generation %}`: marks generated text for trainers; here it is only its content."""

    tags = {"generation"}  # noqa: RUF012 (jinja's own interface)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Sandbox(ImmutableSandboxedEnvironment):
    """Environment of one template.

    Attributes:
        meter: Meter of the rendering under way.

    Args:
        name: Name of the template, for errors.
    """

    code_generator_class = MeteredCode
    intercepted_binops = frozenset({"+", "-", "*", "**", "%"})

    def __init__(self, name: str) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
        )
        self.meter = TemplateMeter(name)
        self.finalize = self._weigh_output
        self.globals["lipsum"] = None
        self.filters = {
            filter_name: self.metered(filter_name, self.filters[filter_name])
            for filter_name in sorted(FILTERS)
        }
        for test in _COMPARING_TESTS:
            known: Any = self.tests[test]
            self.tests[test] = self._weighing(known)
        self.tests["in"] = lambda member, values: self.holds(member, values)

    def metered(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The filter `function` with the rule of `name`."""
        passed = 1 if hasattr(function, "jinja_pass_arg") else 0
        consumes, is_plain = name in CONSUMING_FILTERS, name in TEXT_FILTERS

        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            value: Any = arguments[passed] if len(arguments) > passed else None
            if is_plain and type(value) is str:
                self.meter.count_text(len(value))
                return function(*arguments, **named)
            if consumes and hasattr(value, "__next__"):
                value = list(self.meter.counted(value))
                arguments = (*arguments[:passed], value, *arguments[passed + 1 :])
            count_filter(self.meter, name, [*arguments[passed:], *named.values()])
            return _small(function(*arguments, **named))

        return run

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "+" and type(left) is type(right) is str:
            self.meter.count_text(len(left) + len(right))
            return left + right
        if operator == "**" or (operator == "%" and isinstance(left, str)):
            raise SecurityError(f"chat templates may not use {operator} here")
        if operator == "*":
            for value, count in ((left, right), (right, left)):
                if isinstance(value, str | list | tuple) and isinstance(count, int):
                    self._count_copies(value, count)
        elif operator == "+" and isinstance(left, str | list | tuple):
            self._count_copies(left, 1)
            self._count_copies(right, 1)
        return _small(self.binop_table[operator](left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        meter = __self.meter
        method = getattr(__obj, "__wrapped__", __obj)  # what the sandbox puts around str.format
        owner = getattr(method, "__self__", None)
        if isinstance(owner, _PLAIN):
            kwargs.pop("_loop_vars", None)  # of the compiled template, for its own functions
            kwargs.pop("_block_vars", None)
            if type(owner) is str and method.__name__ in LINEAR_METHODS:
                meter.count_text(len(owner))
            else:
                count_method(meter, owner, method.__name__, (*args, *kwargs.values()))
            return __obj(*args, **kwargs)
        meter.count_steps(2)
        if isinstance(owner, LoopContext):
            __self.weigh_all(args)
        elif __obj is dict or __obj is Namespace:
            meter.count_items(sum(map(len, args)) + len(kwargs))
        return super().call(__context, __obj, *args, **kwargs)

    def weigh_item(self, container: Any, key: Any) -> Any:
        """`container[key]`, with a key that is hashed or written in an error counted."""
        if parts_of(key) is not None:
            self.meter.weigh(key)
        return self.getitem(container, key)

    def weigh_all(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """`values`, with all that is in them counted."""
        for value in values:
            self.meter.weigh(value)
        return values

    def weigh_texts(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """`values`, with the text that they are joined to counted."""
        self.meter.count_text(sum(map(self.meter.weigh, values)))
        return values

    def weigh_slice(self, value: Any) -> Any:
        """`value`, with a copy of it counted."""
        self._count_copies(value, 1)
        return value

    def compare(self, operators: Sequence[str], values: tuple[Any, ...]) -> bool:
        """`values[0] operators[0] values[1] ...`, counted."""
        for value in values:
            if type(value) is not int:
                self.meter.weigh(value)
        pairs = itertools.pairwise(values)
        return all(
            _OPERATORS[name](left, right)
            for name, (left, right) in zip(operators, pairs, strict=True)
        )

    def holds(self, member: Any, values: Any) -> bool:
        """`member in values`, counted."""
        if isinstance(values, str):
            self.meter.count_steps(1 + len(values) // 64)
        elif isinstance(values, list | tuple):
            self.meter.count_steps(1 + len(values) * (1 + self.meter.weigh(member) // 64))
        elif parts_of(member) is not None:
            self.meter.weigh(member)
        elif hasattr(values, "__next__"):
            return member in self.meter.counted(values)
        return member in values

    def _count_copies(self, value: Any, count: int) -> None:
        if isinstance(value, str):
            self.meter.count_text(len(value) * max(1, count))
        elif isinstance(value, list | tuple):
            self.meter.count_items(len(value) * max(1, count))

    def _weigh_output(self, value: Any) -> Any:
        meter = self.meter
        meter.count_text(len(value) if type(value) is str else meter.weigh(value))
        return value

    def _weighing(self, test: Callable[..., Any]) -> Callable[[Any, Any], bool]:
        def run(left: Any, right: Any) -> bool:
            self.weigh_all((left, right))
            return bool(test(left, right))

        return run


def _small(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise SecurityError("a chat template makes a number of thousands of bits")
    return value
