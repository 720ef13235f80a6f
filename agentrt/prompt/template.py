"""A chat template, rendered in a sandbox with limits.

Templates come with models, so they are untrusted programs: no attributes of Python objects, no long
loops, no huge strings. Their JSON is compact, whatever the default of their filters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agentrt.base.errors import ModelInvalid

MAX_TEMPLATE_CHARACTERS = 1_000_000
MAX_LOOPS = 100_000
MAX_OUTPUT_CHARACTERS = 64_000_000
MAX_REPEATS = 1_000_000


class TemplateRefused(Exception):
    """The template refuses this conversation; the message is its own."""


class GenerationBlock(Extension):
    """`{% generation %}`: marks generated text for trainers; here it is only its content."""

    tags = {"generation"}  # noqa: RUF012 (jinja's own interface)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Sandbox(ImmutableSandboxedEnvironment):
    """Environment of templates: immutable values, bounded memory and time."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(v) if isinstance(v, str | list | tuple) else v for v in (left, right)]
        if operator == "**" or (operator == "%" and isinstance(left, str)):
            raise SecurityError(f"chat templates may not use {operator} here")
        if operator == "*" and any(isinstance(v, str | list | tuple) for v in (left, right)):
            count = max(1, sizes[0]) * max(1, sizes[1])
            if count > MAX_REPEATS:
                raise SecurityError(f"a chat template repeats something {count} times")
        return super().call_binop(context, operator, left, right)


class ChatTemplate:
    """One compiled chat template.

    Attributes:
        source: Text of the template.
        reads_clock: Whether it read the date while rendering; the date is always that of loading.
    """

    def __init__(self, source: str, special_texts: dict[str, str], name: str) -> None:
        """Compile `source`; `name` locates it in errors.

        Raises:
            ModelInvalid: The source is too long, or not a valid template.
        """
        self.source = source
        self.reads_clock = False
        self._special_texts = special_texts
        self._loaded_at = datetime.now().astimezone()
        self._loops_left = MAX_LOOPS
        if len(source) > MAX_TEMPLATE_CHARACTERS:
            raise ModelInvalid(f"{name} is {len(source)} characters long", hint="Shorten it")
        sandbox = Sandbox(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
        )
        sandbox.filters["tojson"] = to_json
        sandbox.globals |= {
            "raise_exception": _refuse,
            "strftime_now": self._strftime_now,
            "range": self._range,
            "lipsum": None,
        }
        try:
            self.constants = tuple(sorted(_tested_constants(sandbox.parse(source))))
            self._template = sandbox.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ModelInvalid(
                f"{name}, line {error.lineno}: {error.message}",
                hint="Copy the template that came with the model again",
            ) from error

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        answer: bool = True,
    ) -> str:
        """The text of a conversation; with `answer`, with the generation prompt.

        Raises:
            TemplateRefused: The template raised, or went beyond its limits.
        """
        self._loops_left = MAX_LOOPS
        given = {**self._special_texts, "messages": messages, "tools": tools, "documents": None}
        parts: list[str] = []
        size = 0
        try:
            for part in self._template.generate(**given, add_generation_prompt=answer):
                size += len(part)
                if size > MAX_OUTPUT_CHARACTERS:
                    raise TemplateRefused(f"it wrote more than {MAX_OUTPUT_CHARACTERS} characters")
                parts.append(part)
        except TemplateRefused:
            raise
        except Exception as error:  # untrusted: any error is a refusal
            raise TemplateRefused(str(error) or type(error).__name__) from error
        return "".join(parts)

    def _strftime_now(self, form: str) -> str:
        self.reads_clock = True
        return self._loaded_at.strftime(form)

    def _range(self, *bounds: int) -> range:
        numbers = range(*bounds)
        self._loops_left -= len(numbers)
        if self._loops_left < 0:
            raise SecurityError(f"a chat template loops more than {MAX_LOOPS} times")
        return numbers


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The `tojson` of chat templates: compact unless the template sets a format."""
    if separators is None and indent is None:
        separators = (",", ":")
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: str) -> None:
    raise TemplateRefused(str(message))


def _tested_constants(tree: nodes.Template) -> Iterable[str]:
    """Texts that the template tests for in contents, such as `</think>`.

    A content that contains one of them may be written differently from others.
    """
    found: set[str] = set()
    for kind in (nodes.Compare, nodes.Call, nodes.Filter, nodes.Test):
        for node in tree.find_all(kind):
            if isinstance(node, nodes.Call) and not isinstance(node.node, nodes.Getattr):
                continue
            found.update(
                constant.value
                for constant in node.find_all(nodes.Const)
                if isinstance(constant.value, str) and _is_about_contents(constant.value)
            )
    return found


def _is_about_contents(text: str) -> bool:
    """Whether a constant is about contents: not a key, a role or whitespace."""
    return re.fullmatch(r"[\w\s.,:-]*", text) is None
