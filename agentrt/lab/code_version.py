"""A hash of the code that is measured: plays of two versions are not put into one table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

_SOURCES = {".py", ".c", ".cc", ".cpp", ".h", ".jinja", ".toml"}


def code_version() -> str:
    """Hash of the sources of this package and of its kernels."""
    return hash_of(_folders())


def hash_of(folders: Iterable[Path]) -> str:
    """Hash of the names and the contents of all sources below some folders.

    Args:
        folders: Folders; the place where one lies does not matter.
    """
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in _SOURCES and "__pycache__" not in path.parts:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{folder.name}/{path.relative_to(folder)} {content}\n".encode())
    return digest.hexdigest()[:12]


def _folders() -> list[Path]:
    specs = [find_spec(name) for name in ("agentrt", "agentrt_kernels")]
    places = [spec.submodule_search_locations or [] for spec in specs if spec is not None]
    return [Path(place) for found in places for place in found]
