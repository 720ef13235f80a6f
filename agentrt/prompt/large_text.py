"""Texts that take so long to encode that it happens in a worker thread."""

from __future__ import annotations

LARGE_CHARACTERS = 64 * 1024
