"""Tables of an engine file that is written over: those that the new one lacks stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomlkit
from tomlkit.items import Table

from agentrt.base.engines.engine_file import DEFAULT_ROLE, EMBEDDED
from agentrt.base.record import record

CONTENT = "content"
_NAMED = ("engines", "roles", "mcp")
_MEASURED = (("engines", EMBEDDED), ("roles", DEFAULT_ROLE))
"""Tables that are part of what was measured, even if the file that was measured has none."""


@record
class KeptTables:
    """Fate of the tables of a file that is written over.

    Attributes:
        kept: Names of tables and roles that stay, as `engines.large`.
        replaced: Names of those that do not, and had something else.
    """

    kept: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()

    def in_words(self) -> str:
        """The names in a line; "" for none."""
        parts = (("kept", self.kept), ("written over", self.replaced))
        return "; ".join(f"{what} {', '.join(names)}" for what, names in parts if names)


def keep_tables(document: Any, over: str) -> KeptTables:
    r"""Add the engines, roles and other tables of a file that is written over to the new one.

    A table that both have is that of the new file, as it was measured. The embedded engine and the
    default role were measured, too, if only the old file names them.

    Args:
        document: The new file, which is changed.
        over: Text of the file that is written over, a valid one.

    Example:
        >>> document = tomlkit.parse('[roles]\nplanner = "large"\n')
        >>> keep_tables(document, '[roles]\nplanner = "small"\njudge = "small"\n').in_words()
        'kept roles.judge; written over roles.planner'
    """
    old = tomlkit.parse(over)
    kept: list[str] = []
    replaced: list[str] = []
    for part in _NAMED:
        for name, item in old.get(part, {}).items():
            there = document.get(part, {}).get(name)
            if there is not None or (part, name) in _MEASURED:
                if there is None or _plain(there) != _plain(item):
                    replaced.append(f"{part}.{name}")
                continue
            table_in(document, part, is_super=part != "roles")[name] = _own(item)
            kept.append(f"{part}.{name}")
    if CONTENT in old and CONTENT not in document:
        document[CONTENT] = _own(old[CONTENT])
        kept.append(CONTENT)
    elif CONTENT in old and _plain(old[CONTENT]) != _plain(document[CONTENT]):
        replaced.append(CONTENT)
    return KeptTables(tuple(kept), tuple(replaced))


def table_in(parent: Any, name: str, *, is_super: bool = False) -> Any:
    r"""The table of a name, made if there is none.

    Args:
        parent: A document or a table of it.
        name: Name of the table.
        is_super: Whether it only holds other tables, so that no heading of its own is written.

    Example:
        >>> document = tomlkit.document()
        >>> table_in(document, "roles")["judge"] = "small"
        >>> document.as_string()
        '[roles]\njudge = "small"\n'
    """
    if name not in parent:
        parent[name] = tomlkit.table(is_super_table=is_super)
    return parent[name]


def _own(item: Any) -> Any:
    """An item for another document: a table keeps its comments, unless it stands in a line."""
    if isinstance(item, Table) or not isinstance(item, Mapping):
        return item
    return tomlkit.item(_plain(item))


def _plain(item: Any) -> Any:
    return item.unwrap() if hasattr(item, "unwrap") else item
