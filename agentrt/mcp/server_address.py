"""The address of a tool server: a command to start, or a URL."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentrt.base.engines.remote_engine_config import check_header
from agentrt.base.errors import ToolError, UsageError
from agentrt.base.key_reference import check_reference, key_name
from agentrt.base.loopback import is_loopback
from agentrt.base.record import record
from agentrt.base.server_attributes import server_attributes

if TYPE_CHECKING:
    from agentrt.base.engines.tool_server import ToolServer

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A name of `agentrt.toml`; commands with arguments, and paths, do not fit."""


@record
class ServerAddress:
    """A server and what it is given.

    Attributes:
        name: Name for people.
        command: The program to start and its arguments; () for a server at a URL.
        url: URL of the server; "" for a command.
        env: Variables for the process, beside `PATH`, `HOME` and the like.
        headers: Headers of each request.
        cwd: Folder in which the command is started; "" takes that of this process.
    """

    name: str
    command: tuple[str, ...]
    url: str
    env: Mapping[str, str]
    headers: Mapping[str, str]
    cwd: str = ""

    @classmethod
    def of(
        cls,
        server: str | Sequence[str],
        env: Sequence[str] | Mapping[str, str],
        headers: Mapping[str, str],
        name: str = "",
        cwd: str = "",
    ) -> ServerAddress:
        """The address in the arguments of `mcp_tools`, with the values of its references.

        A name of `agentrt.toml` takes what the file says.

        Raises:
            UsageError: The address, a variable or a header cannot be used.
        """
        if (known := _known(server)) is not None:
            if env or headers or cwd:
                raise UsageError(
                    f"MCP server {known.name}: agentrt.toml says how it is reached",
                    hint="Leave out env=, headers= and cwd=, or give a command or a URL",
                )
            server, env, headers, cwd = (
                known.url or known.command,
                known.env,
                known.headers,
                known.cwd,
            )
            name = name or known.name
        if isinstance(server, str) and server.startswith(("http://", "https://")):
            if env or cwd:
                raise UsageError(
                    f"MCP server {_host(server)}: {'env' if env else 'cwd'} is for a command, "
                    "this is a URL",
                    hint='Give headers={"Authorization": "env:NAME"}',
                )
            host = _host(server)
            sent = {one: _header(one, value) for one, value in headers.items()}
            return cls(name or host, (), server, {}, sent)
        command = _command(server)
        if re.match(r"[a-z][a-z+.-]*://", command[0]):
            raise UsageError(
                f"{command[0]!r} is not the URL of an MCP server", hint="Give http://HOST:PORT/mcp"
            )
        if headers:
            raise UsageError(
                f"MCP server {command[0]}: headers are for a URL, this is a command",
                hint='Give env=["NAME"], variables for the process',
            )
        return cls(name or _short(command), command, "", _variables(env), {}, cwd)

    @property
    def is_loopback(self) -> bool:
        """Whether the URL is of this machine, where no proxy is asked."""
        return is_loopback(urlsplit(self.url).hostname or "")

    def attributes(self) -> dict[str, str | int]:
        """The transport in the words of OpenTelemetry's conventions."""
        if not self.url:
            return {"network.transport": "pipe"}
        return {"network.transport": "tcp", "network.protocol.name": "http"} | server_attributes(
            self.url
        )

    def error(self, what: str, hint: str) -> ToolError:
        """The error of a server that is not as it should be."""
        return ToolError(f"MCP server {self.name} {what}", hint=hint)

    def hint_of_command(self) -> str:
        """The remedy for a command that cannot be started."""
        program = self.command[0]
        if len(self.command) == 1 and NAME.fullmatch(program):
            from agentrt.base.engines.engine_file import engine_file

            servers = engine_file(os.environ).tool_servers
            if close := get_close_matches(program, servers, n=1):
                return f"Did you mean {close[0]}, which agentrt.toml names?"
            return f"Begin a table [mcp.{program}] in agentrt.toml, or give a command"
        return f"Look whether {program} is there and can be run"


def _known(server: str | Sequence[str]) -> ToolServer | None:
    """The server of `agentrt.toml` that has this name."""
    if not isinstance(server, str) or not NAME.fullmatch(server):
        return None
    from agentrt.base.engines.engine_file import engine_file

    return engine_file(os.environ).tool_servers.get(server)


def _command(server: str | Sequence[str]) -> tuple[str, ...]:
    try:
        parts = shlex.split(server) if isinstance(server, str) else list(server)
    except ValueError as error:
        raise UsageError(
            f"the command of an MCP server cannot be read: {error}",
            hint='Give a list: ["python", "server.py"]',
        ) from error
    if not parts or not all(isinstance(one, str) and one and "\0" not in one for one in parts):
        raise UsageError(
            f"{server!r} is neither a command nor the URL of an MCP server",
            hint='Give "python server.py", a list of texts, or http://HOST:PORT/mcp',
        )
    return tuple(parts)


def _short(command: Sequence[str]) -> str:
    """The program and its first argument that is no option: `python server.py`."""
    first = next((one for one in command[1:] if not one.startswith("-")), "")
    return " ".join(filter(None, map(os.path.basename, (command[0], first))))


def _host(url: str) -> str:
    """Host and port of a URL, which may hold no secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise UsageError(
            f"{url!r} is not the URL of an MCP server", hint="Give http://HOST:PORT/mcp"
        )
    if parts.username or parts.password or parts.fragment:
        # The address itself may hold a password: it is not repeated.
        raise UsageError(
            f"the URL of the MCP server {host} has a user or a fragment",
            hint='Give headers={"Authorization": "env:NAME"}',
        )
    return host if port is None else f"{host}:{port}"


def _header(name: str, value: str) -> str:
    check_header(name, value)
    return _value(value, f"headers: the value of {name!r}")


def _variables(env: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(env, str):
        raise UsageError(f"env={env!r} is one text", hint=f"Give env=[{env!r}]")
    if isinstance(env, Mapping):
        return {name: _value(value, f"env: the value of {name!r}") for name, value in env.items()}
    return {name: _value(f"env:{name}", "env") for name in env}


def _value(given: str, option: str) -> str:
    """A value, or that of the variable which `env:NAME` names."""
    if not given.startswith("env:"):
        return given
    check_reference(given, option)
    return os.environ[key_name(given, option)]
