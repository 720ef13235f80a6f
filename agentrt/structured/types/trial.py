"""Trial of a type's reader: texts of its grammar are read before any model writes one.

The texts are kept on disk by grammar and version: drawing them takes longer than reading them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.private_files import make_private_folder
from agentrt.base.state_folder import state_folder
from agentrt.structured.json_schema.json_grammar import has_rules, json_grammar
from agentrt.structured.json_schema.native import lark_grammar
from agentrt.structured.json_schema.validation import VALIDATOR

_FREE = ["", "a", " two\nlines ", "1", "é€😀", "a" * 40]
_FORMAT = "1"
_VERSION = f"{_FORMAT} {importlib.metadata.version('llguidance')}"
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
    texts = _FREE if spec is None else _texts(spec)
    if not texts:
        raise ConstraintError(
            f"{name}: no text of it was found in the time for that", hint="Give check=True"
        )
    for text in texts:
        try:
            parse(text)
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines()[1:3]]
            reason = ": ".join(lines) or str(error) or type(error).__name__
            raise ConstraintError(
                f"{name}: the text {text[:80]!r} fits its grammar and is not read: {reason[:200]}",
                hint="Give check=True, so that such an answer is given again",
            ) from None


def _texts(spec: ConstraintSpec) -> list[str]:
    if spec.kind == "choice":
        return list(spec.options)
    grammar = lark_grammar(spec.source)
    if spec.kind == "json":
        schema = json.loads(spec.source)
        grammar = json_grammar(schema)
        if has_rules(schema) and VALIDATOR.complaint(spec, grammar):
            grammar = json_grammar(schema, exact=False)
    key = hashlib.sha256(f"{_VERSION}\n{grammar}".encode(errors="surrogatepass")).hexdigest()
    path = state_folder(os.environ) / "texts" / f"{key[:40]}.json"
    with contextlib.suppress(OSError, ValueError):
        return [str(text) for text in json.loads(path.read_text(encoding="utf-8"))]
    texts = VALIDATOR.texts(spec, grammar)
    _keep(path, texts)
    return texts


def _keep(path: Path, texts: list[str]) -> None:
    """Write a file as a whole or not at all; without it, the texts are drawn again."""
    with contextlib.suppress(OSError):
        make_private_folder(path.parent)
        if len(os.listdir(path.parent)) >= _MAX_FILES:
            return
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(texts), encoding="utf-8")
        new.replace(path)
