"""One training transcript, and its text in the model's own wire format.

The text is rendered by the chat template that ships with the model, so that training and serving see the same bytes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

REPOSITORY = Path(__file__).parents[3]
EMBEDDED = REPOSITORY / "agentrt" / "embedded"
PROGRAMS = REPOSITORY / "programs"

Message = dict[str, Any]
Tool = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation; `learn` says for each assistant message in turn whether the model should imitate it."""

    kind: str
    messages: tuple[Message, ...]
    learn: tuple[bool, ...]
    tools: tuple[Tool, ...] = ()

    @property
    def text(self) -> str:
        """The whole conversation as the template writes it."""
        return render(self.messages, self.tools)


def compact(value: object) -> str:
    """JSON without spaces, in the order of the keys."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _template() -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = compact
    return environment.from_string((EMBEDDED / "chat_template.jinja").read_text("utf-8"))


_TEMPLATE = _template()


def render(messages: Sequence[Message], tools: Sequence[Tool] = (), *, prompt: bool = False) -> str:
    """The text of `messages`; with `prompt`, up to where the assistant is to continue."""
    return _TEMPLATE.render(messages=messages, tools=list(tools), add_generation_prompt=prompt)


def message(role: str, content: str) -> Message:
    """A plain message."""
    return {"role": role, "content": content}


def system(content: str) -> Message:
    """A system message."""
    return message("system", content)


def user(content: str) -> Message:
    """A user message."""
    return message("user", content)


def assistant(content: str) -> Message:
    """An assistant message of text."""
    return message("assistant", content)


def tool_result(content: str) -> Message:
    """A tool's result."""
    return message("tool", content)


def assistant_calls(calls: Iterable[tuple[str, Mapping[str, object]]]) -> Message:
    """An assistant message that calls tools."""
    listed = [
        {"type": "function", "function": {"name": name, "arguments": dict(args)}}
        for name, args in calls
    ]
    return {"role": "assistant", "content": "", "tool_calls": listed}


def tool_spec(
    name: str, description: str, required: Sequence[str], optional: Sequence[str] = ()
) -> Tool:
    """A tool as far as the template shows it: names only."""
    properties: dict[str, object] = {key: {} for key in (*required, *optional)}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }
