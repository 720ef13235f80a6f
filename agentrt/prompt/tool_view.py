"""A template as it is while one set of tools is offered."""

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

MOST_TOOL_SETS = 64


@dataclass(frozen=True, slots=True)
class ToolView:
    """What holds while one set of tools is offered.

    Attributes:
        tools: The set.
        safe_tools: The same, markers in what they say escaped.
        probe: Asks the template.
        layout: Texts between contents.
        composer: Extends prefixes.
        prefixes: Those extended already.
    """

    tools: tuple[ToolSchema, ...]
    safe_tools: tuple[ToolSchema, ...]
    probe: TemplateProbe
    layout: Layout
    composer: Composer
    prefixes: PrefixCache


class ToolViews:
    """The views of the tool sets used of late."""

    def __init__(self, make: Callable[[tuple[ToolSchema, ...]], ToolView]) -> None:
        self._make = make
        self._by_tools: dict[str, ToolView] = {}
        self._recent: ToolView | None = None

    def of(self, tools: tuple[ToolSchema, ...]) -> ToolView:
        """The view of these tools; equal tools share one."""
        if self._recent is not None and self._recent.tools is tools:
            return self._recent
        key = dumps([function_of(tool) for tool in tools])
        view = self._by_tools.pop(key, None) or self._make(tools)
        self._by_tools[key] = self._recent = view
        if len(self._by_tools) > MOST_TOOL_SETS:
            del self._by_tools[next(iter(self._by_tools))]
        return view
