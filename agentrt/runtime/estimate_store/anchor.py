"""Call sites with whole paths, so that `agent.py` of two folders are two programs.

A running process spells files relative to its working directory (`plan agent.py:31`), which reads
best. The file holds whole paths, so that a program is found from any folder and never mistaken for
another one of the same name.
"""

from __future__ import annotations

import os


def anchored(site: str, folder: str) -> str:
    """`NAME FILE:WHERE` with the whole path of its file; anything else as it is."""
    name, file, where = _parts(site)
    if not file or os.path.isabs(file) or file.startswith("<"):
        return site
    return f"{name} {os.path.normpath(os.path.join(folder, file))}:{where}"


def shown(site: str, folder: str) -> str:
    """The same relative to `folder`, if the file lies below it."""
    name, file, where = _parts(site)
    if not os.path.isabs(file):
        return site
    near = os.path.relpath(file, folder)
    return site if near.startswith("..") else f"{name} {near}:{where}"


def _parts(site: str) -> tuple[str, str, str]:
    name, _, at = site.partition(" ")
    file, _, where = at.rpartition(":")
    return name, file, where
