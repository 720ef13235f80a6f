"""Readers of JSON text, which know the type of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

from agentrt.base.record import record


@record
class JsonReader:
    """Reads the JSON of a type.

    Attributes:
        adapter: Adapter of the type.
    """

    adapter: TypeAdapter[Any]

    def __call__(self, text: str) -> Any:
        """The value of a text.

        Raises:
            ValueError: The text is not of the type.
        """
        return self.adapter.validate_json(text)


@record
class PlainReader:
    """Reads JSON as plain Python values.

    Attributes:
        read: Gives the value of a text, or raises ValueError.
    """

    read: Callable[[str], Any]

    def __call__(self, text: str) -> Any:
        """The value of a text.

        Raises:
            ValueError: The text does not fit.
        """
        return self.read(text)
