"""The message in the body of an error."""

from __future__ import annotations

import json


def error_text(body: bytes) -> str:
    """Message of an error body in one line: OpenAI's form, FastAPI's, or plain text."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return " ".join(body.decode("utf-8", "replace").split())[:300]
    for key in ("error", "detail", "message"):
        if isinstance(value, dict) and key in value:
            value = value[key]
    return " ".join((value if isinstance(value, str) else json.dumps(value)).split())[:300]
