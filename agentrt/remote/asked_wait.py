"""Time for which a response asks to send nothing."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def asked_wait_s(headers: Mapping[str, str], unix_s: float) -> float:
    """Seconds that a response asks to wait, by `Retry-After` or `retry-after-ms`; else 0."""
    try:
        wait_s = float(headers.get("retry-after-ms", "")) / 1e3
    except ValueError:
        return retry_after_s(headers.get("retry-after", ""), unix_s)
    return max(0.0, wait_s) if wait_s == wait_s else 0.0


def retry_after_s(value: str, unix_s: float) -> float:
    """Seconds that a `Retry-After` asks to wait, given as a number or as a date; else 0."""
    try:
        wait_s = float(value)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(value).timestamp() - unix_s
        except (ValueError, OverflowError):
            return 0.0
    return max(0.0, wait_s) if wait_s == wait_s else 0.0
