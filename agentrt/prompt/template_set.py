"""The templates of one model, used as one: with tools its template for tools, where it has one."""

from __future__ import annotations

import re
from typing import Any

from agentrt.prompt.model_files import ModelFiles
from agentrt.prompt.template import ChatTemplate

PLAIN_TEMPLATE = (
    "{{ bos_token or '' }}{% for message in messages %}{{ message.role | capitalize }}: "
    "{{ message.content }}\n\n{% endfor %}{% if add_generation_prompt %}Assistant: {% endif %}"
)
"""For models that come without a template; the codec's notes say so."""

NAMES = ("default", "tool_use")


class TemplateSet:
    """All templates of a model.

    Attributes:
        source: Their texts, for fingerprints.
        telling: Finds in a content what some template looks for, `</think>` say.
    """

    def __init__(self, files: ModelFiles) -> None:
        """Compile them.

        Raises:
            ModelInvalid: One is no valid template.
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
        self.telling = re.compile("|".join(map(re.escape, sorted(constants))) or r"(?!)")

    @property
    def reads_clock(self) -> bool:
        """Whether one of them has asked for the date."""
        return any(template.reads_clock for template in self._by_name.values())

    def render(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, answer: bool
    ) -> str:
        """The text of a conversation; with `answer`, up to where the model goes on.

        Raises:
            TemplateRefused: The template does not take it.
        """
        default = self._by_name["default"]
        template = self._by_name.get("tool_use", default) if tools else default
        return template.render(messages, tools, answer)
