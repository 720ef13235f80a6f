"""Directories that `agentrt compile` writes, known by their manifest."""

from __future__ import annotations

from pathlib import Path

MANIFEST = "compiled.json"


def is_compiled(path: Path) -> bool:
    """Whether a path names a directory that `agentrt compile` has written."""
    return (path / MANIFEST).is_file()
