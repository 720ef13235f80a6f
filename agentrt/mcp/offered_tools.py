"""The tools of a server as tools of agentrt: chosen, renamed, with schema and effect."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agentrt.base.errors import ToolError, ToolFailed, UsageError
from agentrt.base.trace_context import current_span
from agentrt.mcp.call_result import value_of
from agentrt.mcp.connection import ServerConnection
from agentrt.mcp.held_schema import schema_arguments
from agentrt.program import Tool
from agentrt.tools import EFFECTS, Backoff, Effects
from agentrt.tools.schema_tool import schema_tool

if TYPE_CHECKING:
    from mcp_types import Tool as ServerTool

EffectChoice = Effects | Literal["annotated"] | Mapping[str, Effects]
"""Effects of a server's tools: one for all, by name, or as the server itself says."""

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Offer:
    """Which tools of a server are taken, and their settings; see `mcp_tools`."""

    only: Collection[str] | None
    without: Collection[str]
    prefix: str
    effects: EffectChoice
    timeout_s: float | None
    retries: int
    backoff: Backoff
    max_result_bytes: int | None
    check: bool
    where: str

    def check_settings(self) -> None:
        """Check what needs no server.

        Raises:
            UsageError: A setting is malformed.
        """
        for name, given in (("only", self.only), ("without", self.without)):
            if isinstance(given, str):
                raise UsageError(f"{name}={given!r} is one text", hint=f"Give {name}=[{given!r}]")
        effects = self.effects
        chosen = effects.values() if isinstance(effects, Mapping) else [effects]
        for one in chosen:
            if one not in EFFECTS and (one != "annotated" or isinstance(effects, Mapping)):
                raise UsageError(
                    f"effects={one!r}", hint=f"Give one of {', '.join(EFFECTS)}, or 'annotated'"
                )

    def tools(
        self, offered: Sequence[ServerTool], connection: ServerConnection, *, again: bool = False
    ) -> tuple[Tool[..., Any], ...]:
        """The tools that are taken, in the order of the server.

        Args:
            offered: The tools of the server.
            connection: Makes the calls.
            again: Whether this is a later list, from which tools that settings name may be gone.

        Raises:
            UsageError: A name is not the server's, or cannot be that of a tool.
            ConstraintError: A schema cannot be held.
        """
        server = connection.server.name
        names = [one.name for one in offered]
        mapped = self.effects if isinstance(self.effects, Mapping) else {}
        for asked in (*(self.only or ()), *self.without, *mapped):
            if asked not in names and not again:
                raise UsageError(
                    f"MCP server {server} has no tool {asked!r}",
                    hint=f"Its tools: {', '.join(names) or 'none'}",
                )
        taken = [
            one
            for one in offered
            if (self.only is None or one.name in self.only) and one.name not in self.without
        ]
        tools = tuple(self._tool(one, connection) for one in taken)
        ours = [tool.name for tool in tools]
        if twice := next((one for one in ours if ours.count(one) > 1), None):
            raise UsageError(
                f"MCP server {server} has two tools that would be called {twice}",
                hint="Leave one of them out: without=[...]",
            )
        return tools

    def _tool(self, offered: ServerTool, connection: ServerConnection) -> Tool[..., Any]:
        server = connection.server
        name = self.prefix + _FOREIGN.sub("_", offered.name)
        schemas = schema_arguments(
            offered.input_schema, server=server.name, tool=offered.name, check=self.check
        )
        attributes: dict[str, str | int] = {
            "mcp.method.name": "tools/call",
            **connection.attributes,
        }
        effects = self._effects_of(offered)
        spec = schema_tool(
            _caller(name, offered.name, connection, self.where, writes=effects == "write"),
            schemas,
            name=name,
            description=inspect.cleandoc(offered.description or offered.title or ""),
            effects=effects,
            timeout_s=self.timeout_s,
            retries=self.retries,
            backoff=self.backoff,
            max_result_bytes=self.max_result_bytes,
            where=self.where,
            attributes=attributes,
        )
        return Tool(spec)

    def _effects_of(self, offered: ServerTool) -> Effects:
        if isinstance(self.effects, Mapping):
            return self.effects.get(offered.name, "write")
        if self.effects != "annotated":
            return self.effects
        said = offered.annotations
        if said is not None and said.read_only_hint:
            return "read"
        return "idempotent" if said is not None and said.idempotent_hint else "write"


def _caller(
    name: str, remote_name: str, connection: ServerConnection, where: str, *, writes: bool
) -> Any:
    """The function of a tool; its name is that of the tool."""

    async def call(**arguments: Any) -> Any:
        from mcp import MCPError

        span = current_span.get()
        context = None if span is None else span.context
        meta = {} if context is None else context.headers()
        try:
            result = await connection.call(remote_name, arguments, meta, writes=writes)
        except ToolError as error:
            raise _failed(error.message, error.hint) from error
        except MCPError as error:
            raise _failed(f"the server refuses the call: {error.message}") from error
        except RuntimeError as error:  # of the SDK: the result does not fit the output schema
            raise _failed(str(error).partition("\n")[0]) from error
        return value_of(result, tool=name, where=where)

    def _failed(what: str, hint: str = "") -> ToolFailed:
        return ToolFailed(f"{name}: {what}", hint=hint, tool=name, where=where)

    call.__name__ = call.__qualname__ = name
    return call
