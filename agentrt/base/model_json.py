"""JSON files of a model directory, read under limits of size and depth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentrt.base.errors import ModelInvalid

MAX_MODEL_FILE_BYTES = 256 << 20
"""The largest tokenizers of today have 35 MB."""


def read_model_text(path: Path) -> str:
    """The text of a file of a model.

    Raises:
        FileNotFoundError: There is none.
        ModelInvalid: The file is too large or unreadable.
    """
    try:
        size = path.stat().st_size
        if size > MAX_MODEL_FILE_BYTES:
            raise ModelInvalid(f"{path} has {size} bytes", hint="Copy the file again")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise ModelInvalid(f"cannot read {path}: {error}", hint="Copy the file again") from error


def parse_model_json(text: str, path: Path) -> dict[str, Any]:
    """The JSON object in `text`, the text of `path`.

    Raises:
        ModelInvalid: The text is no JSON object, or is nested too deeply.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelInvalid(f"{path} is not JSON: {error}", hint="Copy the file again") from error
    if not isinstance(value, dict):
        raise ModelInvalid(f"{path} holds no JSON object", hint="Copy the file again")
    return value
