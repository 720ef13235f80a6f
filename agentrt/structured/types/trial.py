"""Trial of a type's reader: texts of its grammar are read before any model writes one.

The texts are kept on disk by constraint and version: to draw them takes longer than to read them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentrt.base.atomic_write import write_atomically
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.private_files import make_private_folder
from agentrt.base.user_folders import state_folder
from agentrt.structured.json_schema.declaration import texts_of

_FREE = ["", "a", " two\nlines ", "1", "é€😀", "a" * 40]
_FORMAT = "1"


def _version(package: str) -> str:
    """Version of a package; `source` for a tree that is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "source"


_VERSION = " ".join([_FORMAT, *map(_version, ("llguidance", "agentrt"))])
_MAX_FILES = 4096


def check_reading(spec: ConstraintSpec | None, parse: Callable[[str], Any], name: str) -> None:
    """Refuse a type whose reader refuses a text that its grammar allows.

    Args:
        spec: The constraint of the type; None if any text is allowed.
        parse: The reader.
        name: The type, for people.

    Raises:
        ConstraintError: Names the text and the reader's reason.
    """
    fault = _fault(_FREE if spec is None else _kept(spec) or _drawn(spec), parse)
    if fault and spec is not None:  # the kept ones may be of an earlier grammar
        fault = _fault(_drawn(spec), parse)
    if fault:
        raise ConstraintError(
            f"{name}: {fault}", hint="Give check=True, so that such an answer is given again"
        )


def _fault(texts: Sequence[str], parse: Callable[[str], Any]) -> str:
    """The first text that is not read, and why; "" if all are."""
    for text in texts:
        try:
            parse(text)
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines()[1:3]]
            reason = ": ".join(lines) or str(error) or type(error).__name__
            return f"the text {text[:80]!r} fits its grammar and is not read: {reason[:200]}"
    return "" if texts else "no text of it was found in the time for that"


def _kept(spec: ConstraintSpec) -> list[str]:
    """Texts that were drawn before; [] if there are none."""
    with contextlib.suppress(OSError, ValueError):
        return [str(text) for text in json.loads(_path(spec).read_text(encoding="utf-8"))]
    return []


def _drawn(spec: ConstraintSpec) -> list[str]:
    if spec.kind == "choice":
        return list(spec.options)
    texts = list(texts_of(spec))
    _keep(_path(spec), texts)
    return texts


def _path(spec: ConstraintSpec) -> Path:
    options = json.dumps([_VERSION, spec.kind, spec.source, spec.options])
    key = hashlib.sha256(options.encode()).hexdigest()
    return state_folder(os.environ) / "texts" / f"{key[:40]}.json"


def _keep(path: Path, texts: list[str]) -> None:
    """Write a file; without it, the texts are drawn again."""
    with contextlib.suppress(OSError):
        make_private_folder(path.parent)
        if len(os.listdir(path.parent)) >= _MAX_FILES:
            return
        write_atomically(path, json.dumps(texts).encode())
