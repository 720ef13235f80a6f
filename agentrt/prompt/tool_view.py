"""The view of a chat template with one set of tools offered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentrt.base.canonical_json import dumps
from agentrt.base.segments import ToolSchema
from agentrt.prompt.composer import Composer
from agentrt.prompt.layout import Layout
from agentrt.prompt.message_form import function_of
from agentrt.prompt.prefix_cache import PrefixCache
from agentrt.prompt.probe import TemplateProbe

MAX_TOOL_SETS = 64


@dataclass(frozen=True, slots=True)
class ToolView:
    """State of the codec for one set of tools.

    Attributes:
        tools: The tools.
        probe: Renders the template with them.
        layout: Texts between contents.
        composer: Extends prefixes.
        prefixes: Cache of prefixes.
    """

    tools: tuple[ToolSchema, ...]
    probe: TemplateProbe
    layout: Layout
    composer: Composer
    prefixes: PrefixCache


class ToolViews:
    """Views of the tool sets used last."""

    def __init__(self, make: Callable[[tuple[ToolSchema, ...]], ToolView]) -> None:
        self._make = make
        self._by_tools: dict[str, ToolView] = {}
        self._recent: ToolView | None = None

    def for_tools(self, tools: tuple[ToolSchema, ...]) -> ToolView:
        """The view of these tools; equal tool sets share one."""
        if self._recent is not None and self._recent.tools is tools:
            return self._recent
        key = dumps([function_of(tool) for tool in tools])
        view = self._by_tools.pop(key, None) or self._make(tools)
        self._by_tools[key] = self._recent = view
        if len(self._by_tools) > MAX_TOOL_SETS:
            del self._by_tools[next(iter(self._by_tools))]
        return view
