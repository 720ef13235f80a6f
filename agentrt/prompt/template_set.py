"""The chat templates of one model, used as one: its template for tools if tools are offered."""

from __future__ import annotations

import re
from typing import Any

from agentrt.prompt.model_files import ModelFiles
from agentrt.prompt.template import ChatTemplate

PLAIN_TEMPLATE = (
    "{{ bos_token or '' }}{% for message in messages %}{{ message.role | capitalize }}: "
    "{{ message.content }}\n\n{% endfor %}{% if add_generation_prompt %}Assistant: {% endif %}"
)
"""Template for models without one; the codec's notes mention it."""

NAMES = ("default", "tool_use")


class TemplateSet:
    """All chat templates of a model.

    Attributes:
        source: Texts of the templates, for fingerprints.
        tested: Pattern of texts that some template tests for in contents, for example `</think>`.
    """

    def __init__(self, files: ModelFiles) -> None:
        """Compile the templates.

        Raises:
            ModelInvalid: One is not a valid template.
        """
        sources = files.templates or {"default": PLAIN_TEMPLATE}
        self._by_name = {
            name: ChatTemplate(source, files.special_texts, f"{files.path}: chat template {name!r}")
            for name, source in sources.items()
            if name in NAMES
        }
        pairs = sorted(self._by_name.items())
        self.source = "".join(f"{name}:{template.source}" for name, template in pairs)
        constants = {text for template in self._by_name.values() for text in template.constants}
        self.tested = re.compile("|".join(map(re.escape, sorted(constants))) or r"(?!)")

    @property
    def reads_clock(self) -> bool:
        """Whether one of them has asked for the date."""
        return any(template.reads_clock for template in self._by_name.values())

    def render(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, answer: bool
    ) -> str:
        """The text of a conversation; with `answer`, with the generation prompt.

        Raises:
            TemplateRefused: The template refuses it.
        """
        default = self._by_name["default"]
        template = self._by_name.get("tool_use", default) if tools else default
        return template.render(messages, tools, answer)
