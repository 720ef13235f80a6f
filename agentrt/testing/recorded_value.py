"""Values of a recording, read by their type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def recorded_value(adapter: TypeAdapter[Any], text: str) -> Any:
    """The value that a recording has as text: text itself, or JSON.

    Args:
        adapter: The type of the value.
        text: The text of the recording.

    Raises:
        ValueError: The text is no value of that type.
    """
    if adapter.core_schema.get("type") == "str":
        return text
    try:
        return adapter.validate_json(text)
    except ValueError:
        try:
            return adapter.validate_python(text)
        except ValueError:
            return adapter.validate_json(text)  # for its complaint
