"""Message content in traces: captured on request only, redacted, and of bounded length.

Transcripts have content by default; it is redacted by the same rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal

from agentrt.base.content_config import ContentChoice
from agentrt.base.redaction import redacted
from agentrt.telemetry.names import CONTENT
from agentrt.telemetry.span import Attributes

Capture = Literal["NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT"]
CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
LIMIT_BYTES = 8192
REDACTED = "[redacted]"
CUT = "…"

_SECRET_KEY = re.compile(r"authorization|api[-_]?key|token|secret|password|cookie", re.IGNORECASE)
_COUNTED = re.compile(r"tokens$|_tokens\b|token_count", re.IGNORECASE)  # sizes, not secrets
_SECRET_VALUE = re.compile(r"\bsk-[A-Za-z0-9_-]{8,}|\bBearer\s+[A-Za-z0-9._~+/-]{8,}=*")


def capture_of(environment: Mapping[str, str]) -> Capture:
    """Content capture by the environment; an unknown value captures nothing."""
    value = environment.get(CAPTURE_VARIABLE, "").strip().upper()
    match value:
        case "SPAN_ONLY" | "EVENT_ONLY" | "SPAN_AND_EVENT":
            return value
        case "TRUE":
            return "SPAN_ONLY"  # the older spelling
        case _:
            return "NO_CONTENT"


def capture_by(capture: Capture, keep: ContentChoice | None) -> Capture:
    """The capture under a choice of what is kept of prompts and answers; None changes nothing."""
    if keep == "off":
        return "NO_CONTENT"
    return "SPAN_ONLY" if keep == "spans" and capture == "NO_CONTENT" else capture


def content_of(attributes: Attributes) -> Attributes:
    """The attributes with message content, redacted and cut, still valid JSON if they were."""
    return {
        key: sanitize_json(value) if isinstance(value, str) else value
        for key, value in attributes.items()
        if key in CONTENT
    }


def sanitize(attributes: Attributes) -> Attributes:
    """Attributes fit for export: no message content, secrets redacted, long text truncated."""
    return {  # most are numbers, which need no call
        key: value if isinstance(value, (int, float)) else _sanitize_value(key, value)
        for key, value in attributes.items()
        if key not in CONTENT
    }


def sanitize_json(text: str) -> str:
    """A JSON text without secrets, at most `LIMIT_BYTES` long and still valid; or plain text."""
    try:
        return _fitting(redact_deep(json.loads(text)))
    except (ValueError, RecursionError):  # no JSON, or nested too deeply
        return sanitize_text(text)


def sanitize_text(text: str) -> str:
    """Text fit for export: without secrets, truncated."""
    kept = truncate(redact(text))
    return kept if kept.isascii() else _utf8(kept).decode()


def redact(text: str) -> str:
    """Text without anything that looks like a key, and as the user's own function redacts it.

    A text that is JSON as a whole, such as a typed answer, also loses what is under secret keys.
    """
    if text[:1] in ("{", "[") and may_hold_secrets(text):
        text = _without_secret_keys(text)
    if "sk-" in text or "earer" in text:
        text = _SECRET_VALUE.sub(REDACTED, text)
    return redacted(text)


def redact_deep(value: Any) -> Any:
    """A value as JSON has it, with each text redacted, and texts under secret keys left out."""
    return _redacted(value, redact)


def may_hold_secrets(text: str) -> bool:
    """Whether a JSON text may hold a value under a secret key."""
    return bool(_SECRET_KEY.search(text))


def truncate(text: str, limit_bytes: int = LIMIT_BYTES) -> str:
    """At most `limit_bytes` of UTF-8, with a mark if truncated."""
    if len(text) * 4 <= limit_bytes:
        return text
    raw = _utf8(text)
    if len(raw) <= limit_bytes:
        return text
    kept_bytes = limit_bytes - len(CUT.encode())
    return raw[:kept_bytes].decode(errors="ignore") + CUT


def _utf8(text: str) -> bytes:
    """A text in UTF-8, which has no form for half of a surrogate pair, as in names of files."""
    return text.encode(errors="replace")


def _fitting(value: Any) -> str:
    """A value as JSON of at most `LIMIT_BYTES`, for which texts and lists are cut."""
    for longest in (LIMIT_BYTES, 1024, 256, 64, 16):
        cut = json.dumps(_shorten(value, longest), ensure_ascii=False, separators=(",", ":"))
        if len(raw := _utf8(cut)) <= LIMIT_BYTES:
            return raw.decode()
    return json.dumps(truncate(cut, LIMIT_BYTES // 2 - 2), ensure_ascii=False)  # as one string


def _without_secret_keys(text: str) -> str:
    """A JSON text without what is under secret keys; any other text, and one without any, as is."""
    try:
        value = json.loads(text)
        kept = _redacted(value, str)
    except (ValueError, RecursionError):
        return text
    return text if kept == value else json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _redacted(value: Any, redaction: Callable[[str], str], *, is_secret: bool = False) -> Any:
    """A value with each of its texts redacted, or left out anywhere under a secret key."""
    if isinstance(value, dict):
        return {
            key: _redacted(part, redaction, is_secret=is_secret or _is_secret(key))
            for key, part in value.items()
        }
    if isinstance(value, list):
        return [_redacted(part, redaction, is_secret=is_secret) for part in value]
    if not isinstance(value, str):
        return value
    return REDACTED if is_secret else redaction(value)


def _sanitize_value(key: str, value: Any) -> Any:
    if isinstance(value, str):
        if _is_secret(key):
            return REDACTED
        return truncate(redact(value) if "sk-" in value or "earer" in value else value)
    if isinstance(value, tuple):
        return tuple([_sanitize_value(key, part) for part in value])
    return value


@lru_cache(maxsize=1024)
def _is_secret(key: str) -> bool:
    return bool(_SECRET_KEY.search(key)) and not _COUNTED.search(key)


def _shorten(value: Any, longest: int) -> Any:
    """Truncate strings to at most `longest` bytes, lists to at most `longest` items."""
    if isinstance(value, dict):
        return {key: _shorten(part, longest) for key, part in value.items()}
    if isinstance(value, list):
        return [_shorten(part, longest) for part in value[:longest]]
    return truncate(value, longest) if isinstance(value, str) else value
