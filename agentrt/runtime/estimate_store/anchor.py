"""Places in files, told apart by folder: two `agent.py` in two folders are two programs.

While it runs a process spells files relative to its working directory (`plan agent.py:31`), which
is what people want to read. Kept is the whole path, so that a program is found again from any
folder, and never mistaken for another of the same name.
"""

from __future__ import annotations

import os


def anchored(place: str, folder: str) -> str:
    """`NAME FILE:WHERE` with the whole path of its file; anything else as it is."""
    name, file, where = _parts(place)
    if not file or os.path.isabs(file) or file.startswith("<"):
        return place
    return f"{name} {os.path.normpath(os.path.join(folder, file))}:{where}"


def shown(place: str, folder: str) -> str:
    """The same relative to `folder`, where it lies below it."""
    name, file, where = _parts(place)
    if not os.path.isabs(file):
        return place
    near = os.path.relpath(file, folder)
    return place if near.startswith("..") else f"{name} {near}:{where}"


def _parts(place: str) -> tuple[str, str, str]:
    name, _, at = place.partition(" ")
    file, _, where = at.rpartition(":")
    return name, file, where
