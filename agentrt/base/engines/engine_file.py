"""`agentrt.toml`: engines by name, the roles that they play, what is kept, and tool servers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrt.base.engines.fallback_reason import REASONS
from agentrt.base.engines.fleet_table import members_of
from agentrt.base.engines.remote_engine_config import (
    Fallbacks,
    FleetMember,
    RemoteEngineConfig,
)
from agentrt.base.engines.setting_errors import meant, type_name
from agentrt.base.errors import UsageError
from agentrt.base.prices import Prices

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from agentrt.base.content_config import ContentConfig
    from agentrt.base.engines.tool_server import ToolServer

FILE_NAME = "agentrt.toml"
MAX_FILE_BYTES = 1 << 20
EMBEDDED = "embedded"
DEFAULT_ROLE = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
COOLDOWN = "cooldown_s"
_PARTS = ("engines", "roles", "content", "mcp")
MEMBERS = "members"
_APART = ("fallbacks", "prices", MEMBERS)


@dataclass(frozen=True, slots=True)
class EngineFile:
    """The engines and roles of one file.

    Attributes:
        path: The file; None if there is none.
        engines: Engines by name.
        roles: Name of the engine of each role; `default` is that of generations without a role.
        embedded_prices: Prices of the embedded engine, if the file has any.
        embedded_formats: Model, formats and other settings of the embedded engine, by fields of
            `EngineConfig`.
        content: Settings of what is kept of prompts and answers, if the file has any.
        tool_servers: Servers of the Model Context Protocol by name.
    """

    path: Path | None = None
    engines: Mapping[str, RemoteEngineConfig] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    embedded_prices: Prices | None = None
    embedded_formats: Mapping[str, Any] = field(default_factory=dict)
    content: ContentConfig | None = None
    tool_servers: Mapping[str, ToolServer] = field(default_factory=dict)

    def engine(self, name: str) -> RemoteEngineConfig:
        """The engine of that name.

        Raises:
            UsageError: The file has none.
        """
        if name in self.engines:
            return self.engines[name]
        known = f"{self.path}: it has {', '.join(self.engines)}"
        where = known if self.engines else f"there is no {FILE_NAME} with engines"
        close = get_close_matches(name, [*self.engines, EMBEDDED], n=1)
        names = "http://HOST:PORT, https://..., embedded, or a name of [engines]"
        raise UsageError(
            f"engine {name!r} is no engine ({where})",
            hint=f"did you mean {close[0]}? Else give {names}" if close else f"give {names}",
        )


def engine_file(environment: Mapping[str, str], folder: Path | None = None) -> EngineFile:
    """The file that holds here; without one, a file without engines.

    It is the one that `AGENTRT_CONFIG` names, else `agentrt.toml` in the working directory or the
    nearest above it, else `agentrt/agentrt.toml` in `XDG_CONFIG_HOME` or `~/.config`.

    Args:
        environment: Environment variables.
        folder: The working directory; None takes that of the process.

    Raises:
        UsageError: The file cannot be read, or a part of it is malformed; the message names it.
    """
    path = _path(environment, folder or Path.cwd())
    return EngineFile() if path is None else read_engine_file(path)


def _path(environment: Mapping[str, str], folder: Path) -> Path | None:
    given = environment.get("AGENTRT_CONFIG", "")
    if given:
        return Path(given)
    from agentrt.base.user_folders import config_folder  # not for --help

    folders = [folder, *folder.parents, config_folder(environment)]
    places = [one / FILE_NAME for one in folders]
    return next((path for path in places if path.is_file()), None)


def read_engine_file(path: Path) -> EngineFile:
    """The engines and roles of the file at `path`.

    Raises:
        UsageError: The file cannot be read, or a part of it is malformed; the message names it.
    """
    table = _table(path)
    for part in table:
        if part not in _PARTS:
            raise UsageError(
                f"{path}: {part!r} is no part of it{meant(part, _PARTS)}",
                hint="It has the tables [engines.NAME], [roles], [content] and [mcp.NAME]",
            )
    tables = _checked_table(path, "engines", table)
    embedded_prices, embedded_formats = _embedded(path, tables.pop(EMBEDDED, None))
    mixed = [name for name, given in tables.items() if isinstance(given, dict) and MEMBERS in given]
    engines = {
        name: _engine(path, name, given) for name, given in tables.items() if name not in mixed
    }
    engines |= {
        name: _engine(
            path, name, given, members_of(_place(path, name), given[MEMBERS], engines, mixed)
        )
        for name, given in tables.items()
        if name in mixed
    }
    engines |= {
        name: replace(engines[name], fallbacks=_fallbacks(path, name, given["fallbacks"], engines))
        for name, given in tables.items()
        if "fallbacks" in given
    }
    roles = {
        role: _role(path, role, given, engines)
        for role, given in _checked_table(path, "roles", table).items()
    }
    content = _content(path, _checked_table(path, "content", table))
    servers = {
        name: _tool_server(path, name, given)
        for name, given in _checked_table(path, "mcp", table).items()
    }
    return EngineFile(path, engines, roles, embedded_prices, embedded_formats, content, servers)


def _table(path: Path) -> dict[str, Any]:
    import tomllib  # few programs have a file

    try:
        with path.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UsageError(f"{path} has more than {MAX_FILE_BYTES} bytes", hint="Shorten it")
        return tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="Correct AGENTRT_CONFIG, or the file"
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}", hint="Correct the file") from None


def _checked_table(path: Path, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    given = table.get(name, {})
    if not isinstance(given, dict):
        raise UsageError(f"{path}: {name} is no table", hint=f"Begin it by [{name}]")
    return given


def _place(path: Path, name: str) -> str:
    return f"{path}: engines.{name}"


def _engine(
    path: Path, name: str, given: Any, members: tuple[FleetMember, ...] = ()
) -> RemoteEngineConfig:
    where = _place(path, name)
    _check_name(path, "engines", name)
    if not isinstance(given, dict):
        raise UsageError(f"{where} is no table", hint=f"Begin it by [engines.{name}]")
    known = [one.name for one in fields(RemoteEngineConfig) if one.name != "name"]
    for key in given:
        if key not in known:
            raise UsageError(
                f"{where}: {key!r} is no setting of an engine{meant(key, known)}",
                hint=f"It takes {', '.join(known)}",
            )
    from agentrt.base.engines.price_table import prices_of_table

    own = {key: value for key, value in given.items() if key not in _APART}
    prices = prices_of_table(f"{where}.prices", given["prices"]) if "prices" in given else None
    if isinstance(tokenizer := own.get("tokenizer"), str) and tokenizer:
        own["tokenizer"] = str(path.parent / Path(tokenizer).expanduser())
    return replace(_validated(where, own, members), name=name, prices=prices)


def _check_name(path: Path, part: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{path}: {part}: {name!r} is no name", hint="Give letters, digits, '.', '_' and '-'"
        )


def _tool_server(path: Path, name: str, given: Any) -> ToolServer:
    from agentrt.base.engines.tool_server import tool_server_of_table

    _check_name(path, "mcp", name)
    return tool_server_of_table(f"{path}: mcp.{name}", name, given, path.parent)


def _embedded(path: Path, given: Any) -> tuple[Prices | None, dict[str, Any]]:
    if given is None:
        return None, {}
    from agentrt.base.engines.embedded_table import embedded_of_table

    return embedded_of_table(_place(path, EMBEDDED), path.parent, given)


def _content(path: Path, given: dict[str, Any]) -> ContentConfig | None:
    if not given:
        return None
    from agentrt.base.engines.content_table import content_of_table

    return content_of_table(f"{path}: content", given)


def _fallbacks(
    path: Path, name: str, given: Any, engines: Mapping[str, RemoteEngineConfig]
) -> Fallbacks:
    where = f"{path}: engines.{name}.fallbacks"
    if not isinstance(given, dict):
        raise UsageError(f"{where} is no table", hint=f"Begin it by [engines.{name}.fallbacks]")
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key == COOLDOWN:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"{where}: {key} is {type_name(value)}", hint="Give seconds")
            found[key] = float(value)
        elif key not in REASONS:
            raise UsageError(
                f"{where}: {key!r} is no reason{meant(key, (*REASONS, COOLDOWN))}",
                hint=f"It takes {', '.join(REASONS)} and {COOLDOWN}",
            )
        else:
            found[key] = tuple(
                _fallback(f"{where}.{key}", name, one, engines) for one in _list(where, key, value)
            )
    try:
        return Fallbacks(**found)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from None


def _names(where: str, key: str, value: Any) -> tuple[str, ...]:
    for one in _list(where, key, value):
        if not isinstance(one, str):
            raise UsageError(f"{where}: {key} holds {type_name(one)}", hint="Give names alone")
    return tuple(value)


def _list(where: str, key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(
            f"{where}: {key} is {type_name(value)}", hint=f'Give names, as {key} = ["NAME"]'
        )
    return value


def _fallback(
    where: str, name: str, given: Any, engines: Mapping[str, RemoteEngineConfig]
) -> RemoteEngineConfig:
    if not isinstance(given, str) or given not in engines:
        near = meant(given, engines) if isinstance(given, str) else ""
        raise UsageError(
            f"{where}: there is no engine {given!r}{near}", hint=f"Give {', '.join(engines)}"
        )
    if given == name:
        raise UsageError(f"{where}: {given!r} is the engine itself", hint="Name another one")
    return engines[given]


def _validated(
    where: str, given: dict[str, Any], members: tuple[FleetMember, ...] = ()
) -> RemoteEngineConfig:
    """The engine of a table; types are checked strictly, then values."""
    from pydantic import TypeAdapter, ValidationError  # takes time, and most runs have no file

    adapter = TypeAdapter(RemoteEngineConfig)
    try:
        if members:
            # Types are checked on settings of one address: members are no JSON.
            single = {key: one for key, one in given.items() if key != "drain"}
            drain = _names(where, "drain", given.get("drain", []))
            checked = adapter.validate_json(
                json.dumps({"address": "http://members", **single}, default=_refused), strict=True
            )
            return replace(checked, address=single.get("address", ""), members=members, drain=drain)
        # As JSON, strict types still take an array for a tuple.
        return adapter.validate_json(json.dumps(given, default=_refused), strict=True)
    except ValidationError as error:
        raise _type_error(where, error.errors(include_url=False)[0]) from None
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from None


def _refused(value: object) -> str:
    """Refuse a value that no setting takes."""
    raise UsageError(f"{value} is a date or a time", hint="Put it in quotation marks")


def _type_error(where: str, first: ErrorDetails) -> UsageError:
    place = ".".join(str(part) for part in first["loc"])
    said = first["msg"]
    wanted = said.removeprefix("Input should be ")
    what = f"is {type_name(first['input'])}, and must be {wanted}" if wanted != said else said
    return UsageError(f"{where}: {place} {what}", hint="Correct its value")


def _role(path: Path, role: str, given: Any, engines: Mapping[str, RemoteEngineConfig]) -> str:
    if not isinstance(given, str):
        raise UsageError(
            f"{path}: roles.{role} is {type_name(given)}", hint="Give the name of an engine"
        )
    if given != EMBEDDED and given not in engines:
        raise UsageError(
            f"{path}: roles.{role}: there is no engine {given!r}{meant(given, engines)}",
            hint=f"Give {', '.join((*engines, EMBEDDED))}",
        )
    return given
