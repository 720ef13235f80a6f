"""The table `[content]` of `agentrt.toml`: what is kept of prompts and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from agentrt.base.content_config import ContentConfig, content_choice
from agentrt.base.engines.setting_errors import meant, type_name
from agentrt.base.errors import UsageError


def content_of_table(where: str, given: Mapping[str, Any]) -> ContentConfig:
    """The settings of a table.

    Args:
        where: The file and the name of the table, for errors.
        given: The table.

    Raises:
        UsageError: The table has an unknown name, or a value of another type or out of range.
    """
    known = [one.name for one in fields(ContentConfig)]
    for name, value in given.items():
        if name not in known:
            raise UsageError(
                f"{where}: {name!r} is no setting of it{meant(name, known)}",
                hint=f"It takes {', '.join(known)}",
            )
        wanted = str if name == "keep" else int
        if type(value) is not wanted:
            raise UsageError(
                f"{where}: {name} is {type_name(value)}", hint=f"Give {type_name(wanted())}"
            )
    keep = content_choice(given.get("keep", ""), source=f"{where}: keep =")
    try:
        return ContentConfig(**dict(given) | {"keep": keep})
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from None
