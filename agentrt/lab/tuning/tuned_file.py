"""`agentrt.toml` with a tuned configuration: all that the file had, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import Table

from agentrt.base.config import EngineConfig
from agentrt.base.engines.engine_file import EMBEDDED
from agentrt.lab.tuning.kept_tables import KeptTables, keep_tables, table_in
from agentrt.lab.tuning.levers import MODEL, SETTINGS

MARK = "# agentrt tune: "
"""Beginning of a comment of what was measured; a later tuning replaces it."""


def tuned_text(
    before: str,
    comments: Sequence[str],
    *,
    embedded: tuple[EngineConfig, EngineConfig] | None,
    roles: Mapping[str, str],
    moved: Path | None = None,
    over: str = "",
) -> tuple[str, KeptTables]:
    """The text of the file, and what became of the file that it is written over.

    Args:
        before: Text of the file that was there, a valid one, or "".
        comments: Lines of what was measured.
        embedded: Settings of the embedded engine by that file, and the chosen ones; None leaves
            them.
        roles: Engines of the roles that change, by role.
        moved: Folder of the old file if the new one is in another; paths are made absolute then.
        over: Text of another file that is written over, a valid one; "" for none.

    Example:
        >>> from dataclasses import replace
        >>> now = EngineConfig(Path("m"))
        >>> chosen = replace(now, weights="int8")
        >>> text, _ = tuned_text("", ["p50 0.2 s"], embedded=(now, chosen), roles={})
        >>> print(text, end="")
        # agentrt tune: p50 0.2 s
        [engines.embedded]
        weights = "int8"
    """
    lines = [line for line in before.splitlines(keepends=True) if not line.startswith(MARK)]
    document = tomlkit.parse("".join(lines))
    if moved is not None:
        _make_absolute(document, moved)
    if embedded is not None:
        now, chosen = embedded
        changes = {
            key: _value(getattr(chosen, field))
            for key, field in _FIELDS.items()
            if getattr(chosen, field) != getattr(now, field)
        }
        if changes:
            engine = table_in(table_in(document, "engines", is_super=True), EMBEDDED)
            for key, value in changes.items():
                if value is None:
                    engine.pop(key, None)
                else:
                    engine[key] = value
    if roles:
        table = table_in(document, "roles")
        for role, engine_name in roles.items():
            table[role] = engine_name
    kept = keep_tables(document, over)
    return "".join(f"{MARK}{line}\n" for line in comments) + tomlkit.dumps(document), kept


_FIELDS = {name: "model_path" if name == MODEL else name for name in SETTINGS}


def _value(value: Any) -> Any:
    return str(value.resolve()) if isinstance(value, Path) else value


def _make_absolute(document: Mapping[str, Any], folder: Path) -> None:
    """Make the paths of a file that moves those of its old folder."""
    for name, table in document.get("engines", {}).items():
        if not isinstance(table, Table):
            continue
        keys = (MODEL, "draft_model") if name == EMBEDDED else ("tokenizer",)
        _anchor(table, keys, folder)
        adapters = table.get("adapters", {})
        _anchor(adapters, tuple(adapters), folder)
    for table in document.get("mcp", {}).values():
        _anchor(table, ("cwd",), folder)


def _anchor(table: Any, keys: Sequence[str], folder: Path) -> None:
    for key in keys:
        if table.get(key):
            table[key] = str((folder / Path(table[key]).expanduser()).resolve())
