"""Traits that the protocols of OpenAI share."""

from __future__ import annotations

from collections.abc import Mapping


class OpenAIDoor:
    """Paths, headers and habits of OpenAI's API."""

    models_path = "/models"
    headers: Mapping[str, str] = {}
    account_headers: Mapping[str, str] = {
        "organisation": "OpenAI-Organization",
        "project": "OpenAI-Project",
    }
    takes_loose_schemas = True
    thinks = False

    def key_header(self, key: str) -> tuple[str, str]:
        """The header that carries a key."""
        return "Authorization", f"Bearer {key}"
