"""Texts that take so long to encode, ten milliseconds or more, that a worker thread does it."""

from __future__ import annotations

LARGE_CHARACTERS = 8 * 1024
