"""JSON files of a model directory, read under limits of size and depth."""

from __future__ import annotations

import json
import os
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
        raise unreadable(path, error, hint="Copy the file again") from error


def unreadable(path: Path, error: Exception, *, hint: str) -> ModelInvalid:
    """The error of a file of a model that cannot be read.

    Args:
        path: The file.
        error: The reason in the words of what read it. Of a file without the right to read it
            safetensors says that there is none.
        hint: The remedy for a file that is broken.
    """
    if path.exists() and not os.access(path, os.R_OK):
        return ModelInvalid(
            f"cannot read {path}: Permission denied", hint="Give yourself the right to read it"
        )
    if isinstance(error, OSError) and error.strerror:
        return ModelInvalid(f"cannot read {path}: {error.strerror}", hint=hint)
    return ModelInvalid(f"{path} cannot be loaded: {error}", hint=hint)


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
