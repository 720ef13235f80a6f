"""A chat template, run in a sandbox with limits.

Templates come with models, so they are programs of strangers: no attributes of Python objects, no
long loops, no huge strings. JSON that they write is compact, whatever their filters say by default.
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

MOST_TEMPLATE_CHARACTERS = 1_000_000
MOST_LOOPS = 100_000
MOST_OUTPUT_CHARACTERS = 64_000_000
MOST_REPEATS = 1_000_000


class TemplateRefused(Exception):
    """The template does not take this conversation; its own words."""


class GenerationBlock(Extension):
    """`{% generation %}`: marks what a model wrote, for trainers; here it is only its content."""

    tags = {"generation"}  # noqa: RUF012 (jinja's own interface)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Sandbox(ImmutableSandboxedEnvironment):
    """Where templates run: immutable values, and no way to use up memory or time."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(v) if isinstance(v, str | list | tuple) else v for v in (left, right)]
        if operator == "**" or (operator == "%" and isinstance(left, str)):
            raise SecurityError(f"chat templates may not use {operator} here")
        if operator == "*" and any(isinstance(v, str | list | tuple) for v in (left, right)):
            count = max(1, sizes[0]) * max(1, sizes[1])
            if count > MOST_REPEATS:
                raise SecurityError(f"a chat template repeats something {count} times")
        return super().call_binop(context, operator, left, right)


class ChatTemplate:
    """One compiled template.

    Attributes:
        source: Its text.
        reads_clock: It asked for the date while rendering; it always gets that of loading.
    """

    def __init__(self, source: str, special_texts: dict[str, str], name: str) -> None:
        """Compile `source`; `name` says in errors where it stands.

        Raises:
            ModelInvalid: It is too long, or no valid template.
        """
        self.source = source
        self.reads_clock = False
        self._special_texts = special_texts
        self._loaded_at = datetime.now().astimezone()
        self._loops_left = MOST_LOOPS
        if len(source) > MOST_TEMPLATE_CHARACTERS:
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
        """The text of a conversation; with `answer`, up to where the model goes on.

        Raises:
            TemplateRefused: The template raised, or went beyond its limits.
        """
        self._loops_left = MOST_LOOPS
        given = {**self._special_texts, "messages": messages, "tools": tools, "documents": None}
        parts: list[str] = []
        size = 0
        try:
            for part in self._template.generate(**given, add_generation_prompt=answer):
                size += len(part)
                if size > MOST_OUTPUT_CHARACTERS:
                    raise TemplateRefused(f"it wrote more than {MOST_OUTPUT_CHARACTERS} characters")
                parts.append(part)
        except TemplateRefused:
            raise
        except Exception as error:  # a stranger's program: whatever it raises is a refusal
            raise TemplateRefused(str(error) or type(error).__name__) from error
        return "".join(parts)

    def _strftime_now(self, form: str) -> str:
        self.reads_clock = True
        return self._loaded_at.strftime(form)

    def _range(self, *bounds: int) -> range:
        numbers = range(*bounds)
        self._loops_left -= len(numbers)
        if self._loops_left < 0:
            raise SecurityError(f"a chat template loops more than {MOST_LOOPS} times")
        return numbers


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The `tojson` of chat templates: compact unless the template asks for something else."""
    if separators is None and indent is None:
        separators = (",", ":")
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _refuse(message: str) -> None:
    raise TemplateRefused(str(message))


def _tested_constants(tree: nodes.Template) -> Iterable[str]:
    """Texts that the template looks for in contents, such as `</think>`.

    A content that holds one of them may be written otherwise than others.
    """
    found: set[str] = set()
    for kind in (nodes.Compare, nodes.Call, nodes.Filter, nodes.Test):
        for node in tree.find_all(kind):
            if isinstance(node, nodes.Call) and not isinstance(node.node, nodes.Getattr):
                continue
            found.update(
                constant.value
                for constant in node.find_all(nodes.Const)
                if isinstance(constant.value, str) and _is_telling(constant.value)
            )
    return found


def _is_telling(text: str) -> bool:
    """Not a key, a role or whitespace: those do not speak of contents."""
    return re.fullmatch(r"[\w\s.,:-]*", text) is None
