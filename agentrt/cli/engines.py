"""`agentrt engines`: the engines of `agentrt.toml`, and the kinds of servers that it may name."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import typer

from agentrt.base.engines.engine_file import EngineFile, engine_file
from agentrt.base.engines.engine_kind import EngineKind, engine_kind, kind_names
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.key_reference import check_reference
from agentrt.base.text_columns import aligned

COLUMNS = ("name", "kind", "address", "model", "key", "roles")


def engines(
    kinds: Annotated[
        bool, typer.Option("--kinds", help="List the kinds of servers, with their documents.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """List the engines of agentrt.toml and the roles that they play; nothing is sent to them."""
    if kinds:
        found: dict[str, Any] = {"kinds": [kind_row(engine_kind(name)) for name in kind_names()]}
        lines = kind_lines(found["kinds"])
    else:
        file = engine_file(os.environ)
        rows = [engine_row(one, file) for one in file.engines.values()]
        found = {"file": str(file.path) if file.path else None, "engines": rows}
        lines = engine_lines(rows, file)
    if as_json:
        lines = [json.dumps(found, ensure_ascii=False, separators=(",", ":"))]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def engine_row(engine: RemoteEngineConfig, file: EngineFile) -> dict[str, Any]:
    """One engine by column; the key by its reference only."""
    return {
        "name": engine.name,
        "kind": engine.kind,
        "address": engine.url,
        "model": engine.model,
        "key": engine.key or "",
        "key_is_set": bool(engine.key and os.environ.get(check_reference(engine.key, "key"))),
        "roles": [role for role, name in file.roles.items() if name == engine.name],
    }


def engine_lines(rows: list[dict[str, Any]], file: EngineFile) -> list[str]:
    """The engines as a table."""
    if not rows:
        where = f"{file.path} names none" if file.path else "there is no agentrt.toml here or above"
        return [f"no engines: {where}; docs/engines.md shows how to write one"]
    shown = []
    for row in rows:
        missing = " (not set)" if row["key"] and not row["key_is_set"] else ""
        shown.append(row | {"key": row["key"] + missing, "roles": ", ".join(row["roles"])})
    return [
        str(file.path),
        *aligned([COLUMNS, *([row[name] for name in COLUMNS] for row in shown)]),
    ]


def kind_row(kind: EngineKind) -> dict[str, Any]:
    """One kind of server by column."""
    return {
        "kind": kind.name,
        "title": kind.title,
        "address": kind.address,
        "probed": kind.is_probed,
        "fields": {name: one.field for name, one in kind.fields.items()},
        "constraints": {name: list(one.dialects) for name, one in kind.constraints.items()},
        "sources": dict(kind.sources),
    }


def kind_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The kinds, each with what it takes and the documents that say so."""
    lines = []
    for row in rows:
        lines.append(f"{row['kind']:<18} {row['title']}" + f"  {row['address']}".rstrip())
        if row["probed"]:
            lines.append("    its features are found out by requests, once")
        else:
            fields = ", ".join(
                name if name == field else f"{name} as {field}"
                for name, field in row["fields"].items()
            )
            lines.append(f"    takes {fields}")
            lines.append(f"    enforces {', '.join(row['constraints']) or 'nothing'}")
        lines += [f"    {source}" for source in row["sources"].values()]
    return lines
