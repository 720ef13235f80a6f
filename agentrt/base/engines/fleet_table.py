"""The members of a fleet as a table of `agentrt.toml` has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from agentrt.base.engines.remote_engine_config import FleetMember, RemoteEngineConfig
from agentrt.base.engines.setting_errors import meant, type_name
from agentrt.base.errors import UsageError

_HINT = "Give members = { NAME = 2, OTHER = 1 }: engines of this file, and their weights"


def members_of(
    where: str, given: Any, engines: Mapping[str, RemoteEngineConfig], mixed: Collection[str]
) -> tuple[FleetMember, ...]:
    """The members of a table, in its order.

    Args:
        where: File and table, for messages.
        given: The value of `members`.
        engines: Engines of the file that have addresses, by name.
        mixed: Names of the fleets that have members.

    Raises:
        UsageError: The value is no table, a name is unknown or a fleet, or a weight is malformed.
    """
    if not isinstance(given, dict) or not given:
        what = "empty" if given == {} else type_name(given)
        raise UsageError(f"{where}: members is {what}", hint=_HINT)
    return tuple(_member(where, name, weight, engines, mixed) for name, weight in given.items())


def _member(
    where: str,
    name: str,
    weight: Any,
    engines: Mapping[str, RemoteEngineConfig],
    mixed: Collection[str],
) -> FleetMember:
    if name in mixed:
        raise UsageError(
            f"{where}: members: {name!r} is a fleet itself", hint="Name the members of that fleet"
        )
    if name not in engines:
        raise UsageError(
            f"{where}: members: there is no engine {name!r}{meant(name, engines)}",
            hint=f"Give {', '.join(engines) or 'each a table of its own'}",
        )
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise UsageError(
            f"{where}: members.{name} is {type_name(weight)}", hint="Give its weight, such as 1"
        )
    try:
        return FleetMember(engines[name], float(weight))
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from None
