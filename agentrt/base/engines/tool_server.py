"""Tool servers of `agentrt.toml`: how each is reached, by its name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentrt.base.engines.setting_errors import meant, type_name
from agentrt.base.errors import UsageError
from agentrt.base.record import record

SETTINGS = {
    "command": (str, list),
    "args": (list,),
    "cwd": (str,),
    "env": (list, dict),
    "url": (str,),
    "headers": (dict,),
}
"""Settings of a table `[mcp.NAME]`, and their types."""


@record
class ToolServer:
    """A server as the file has it; references to variables are not looked up.

    Attributes:
        name: Name of the server, that of its table.
        command: The program to start and its arguments; () for a server at a URL.
        url: URL of the server; "" for a command.
        env: Variables for the process: names, or values by name.
        headers: Headers of each request to a URL.
        cwd: Folder in which the command is started; "" takes that of this process.
    """

    name: str
    command: tuple[str, ...]
    url: str
    env: tuple[str, ...] | Mapping[str, str]
    headers: Mapping[str, str]
    cwd: str


def tool_server_of_table(where: str, name: str, given: Any, folder: Path) -> ToolServer:
    """The server of a table.

    Args:
        where: The file and the name of the table, for errors.
        name: Name of the server.
        given: The table.
        folder: Folder of the file, to which `cwd` is relative.

    Raises:
        UsageError: The table has an unknown name or a value of another type, or it names neither a
            command nor a URL, or both.
    """
    if not isinstance(given, dict):
        raise UsageError(f"{where} is no table", hint=f"Begin it by [mcp.{name}]")
    for key, value in given.items():
        _check(where, key, value)
    if ("command" in given) == ("url" in given):
        what = "both a command and a URL" if "url" in given else "neither a command nor a URL"
        raise UsageError(
            f"{where} has {what}", hint='Give command = ["python", "server.py"], or url = "..."'
        )
    wrong = [one for one in ("headers",) if "command" in given and one in given]
    wrong += [one for one in ("args", "env", "cwd") if "url" in given and one in given]
    if wrong:
        other = "a command" if "url" in given else "a URL"
        raise UsageError(f"{where}: {wrong[0]} is for {other}", hint="Leave it out")
    env = given.get("env", [])
    cwd = given.get("cwd", "")
    return ToolServer(
        name=name,
        command=_command(where, given),
        url=given.get("url", ""),
        env=dict(env) if isinstance(env, dict) else tuple(env),
        headers=given.get("headers", {}),
        cwd=str(folder / Path(cwd).expanduser()) if cwd else "",
    )


def _check(where: str, key: str, value: Any) -> None:
    if key not in SETTINGS:
        raise UsageError(
            f"{where}: {key!r} is no setting of a tool server{meant(key, SETTINGS)}",
            hint=f"It takes {', '.join(SETTINGS)}",
        )
    kinds = SETTINGS[key]
    if type(value) not in kinds:
        wanted = " or ".join(type_name(kind()) for kind in kinds)
        raise UsageError(f"{where}: {key} is {type_name(value)}", hint=f"Give {wanted}")
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in held:
        if not isinstance(one, str):
            raise UsageError(
                f"{where}: {key} holds {type_name(one)}", hint="Put it in quotation marks"
            )


def _command(where: str, given: Mapping[str, Any]) -> tuple[str, ...]:
    command = given.get("command", [])
    args = tuple(given.get("args", []))
    if isinstance(command, list):
        return (*command, *args)
    try:
        # With arguments beside it, as other clients write servers down, it is a program alone.
        return (command, *args) if "args" in given else tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(
            f"{where}: the command cannot be read: {error}",
            hint='Give a list: ["python", "server.py"]',
        ) from None
