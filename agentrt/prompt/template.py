"""A chat template, rendered in a sandbox with limits.

Templates come with models, so they are untrusted programs: no attributes of Python objects, and
limits of work and memory (`template_meter`). Their JSON is compact, whatever the default of their
filters.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes

from agentrt.base.errors import ModelInvalid, RequestRejected
from agentrt.prompt.template_sandbox import Sandbox

MAX_TEMPLATE_CHARACTERS = 200_000
MAX_DATE_FORM_CHARACTERS = 200
_COPY_IT = "Copy the template that came with the model again"


class TemplateRefused(Exception):
    """The template refuses this conversation; the message is its own."""


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
        if len(source) > MAX_TEMPLATE_CHARACTERS:
            raise ModelInvalid(f"{name} is {len(source)} characters long", hint="Shorten it")
        sandbox = Sandbox(name)
        self._meter = sandbox.meter
        self._rendering = threading.Lock()
        sandbox.filters["tojson"] = sandbox.metered("tojson", to_json)
        sandbox.globals |= {
            "raise_exception": self._refuse,
            "strftime_now": self._strftime_now,
            "range": self._range,
        }
        try:
            self.constants = tuple(sorted(_tested_constants(sandbox.parse(source))))
            self._template = sandbox.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ModelInvalid(
                f"{name}, line {error.lineno}: {error.message}", hint=_COPY_IT
            ) from error
        except Exception as error:  # nested too deeply for the parser, or for Python
            raise ModelInvalid(
                f"{name} cannot be compiled: {type(error).__name__}", hint=_COPY_IT
            ) from error

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        answer: bool = True,
    ) -> str:
        """The text of a conversation; with `answer`, with the generation prompt.

        Raises:
            TemplateRefused: The template raised.
            RequestRejected: The template exceeds its limits of work or memory.
        """
        given = {**self._special_texts, "messages": messages, "tools": tools, "documents": None}
        with self._rendering:
            self._meter.start((messages, tools))
            try:
                return self._template.render(**given, add_generation_prompt=answer)
            except (TemplateRefused, RequestRejected):
                raise
            except Exception as error:  # untrusted: any error is a refusal
                raise TemplateRefused(str(error)[:500] or type(error).__name__) from error

    def _strftime_now(self, form: str) -> str:
        self.reads_clock = True
        return self._loaded_at.strftime(form[:MAX_DATE_FORM_CHARACTERS])

    def _range(self, *bounds: int) -> range:
        numbers = range(*bounds)
        self._meter.count_steps(len(numbers))
        return numbers

    def _refuse(self, message: object) -> None:
        self._meter.weigh(message)
        raise TemplateRefused(str(message))


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The `tojson` of chat templates, with a blank behind commas and colons as in transformers.

    Models were trained on prompts that were rendered so.
    """
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


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
