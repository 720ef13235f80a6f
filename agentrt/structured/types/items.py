"""Items of a JSON array, each at its closing character while the array is still being written."""

from __future__ import annotations

from agentrt.structured.json_scan import ValueScanner, skip_space


class ItemScanner:
    """Cuts the streamed text of one JSON array into the texts of its items.

    ```python
    scanner = ItemScanner()
    scanner.feed_text('[{"a":1},{"a"')  # ['{"a":1}']
    scanner.feed_text(":2}]")           # ['{"a":2}']
    ```
    """

    def __init__(self) -> None:
        self._value: ValueScanner | None = None
        self._parts: list[str] = []
        self._state = "before"  # before | first | item | between | after
        self._chars = 0

    @property
    def done(self) -> bool:
        """Whether the array's closing bracket was seen."""
        return self._state == "after"

    def feed_text(self, text: str) -> list[str]:
        """Items completed by `text`, as JSON.

        Raises:
            ValueError: The text is not a JSON array.
        """
        items: list[str] = []
        at = 0
        while at < len(text):
            if self._value is not None:
                at = self._scan_item(text, at, items)
                continue
            at = skip_space(text, at)
            if at < len(text):
                at = self._step(text, at)
        self._chars += len(text)
        return items

    def _scan_item(self, text: str, start: int, items: list[str]) -> int:
        assert self._value is not None
        end = self._value.feed(text, start)
        self._parts.append(text[start:end])
        if end is None:
            return len(text)
        items.append("".join(self._parts))
        self._parts.clear()
        self._value = None
        self._state = "between"
        return end

    def _step(self, text: str, at: int) -> int:
        """Consume one character outside of items."""
        char = text[at]
        if self._state == "before" and char == "[":
            self._state = "first"
        elif self._state in ("first", "between") and char == "]":
            self._state = "after"
        elif self._state == "between" and char == ",":
            self._state = "item"
        elif self._state in ("first", "item") and char not in ",]}":
            self._value = ValueScanner()
            return at
        else:
            raise ValueError(
                f"not a JSON array: {char!r} at character {self._chars + at} ({self._state})"
            )
        return at + 1
