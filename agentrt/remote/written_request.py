"""`WrittenRequest`: a request whose late fields are read at each sending.

A request may wait for its turn, or be sent again. Meanwhile its priority may change, and the server
may have refused a hint of another request. The rest is written once: long prompts take time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

RequestT = TypeVar("RequestT")


class WrittenRequest(Generic[RequestT]):
    """A request, written again only if a late field has changed.

    Args:
        build: Writes the request with these late fields.
        late: The late fields, as they are now.

    Example:
        >>> place = {"priority": 3}
        >>> written = WrittenRequest(lambda fields: f"{fields}", lambda: dict(place))
        >>> written.latest()
        "{'priority': 3}"
        >>> place["priority"] = 1
        >>> written.latest()
        "{'priority': 1}"
    """

    def __init__(
        self, build: Callable[[dict[str, Any]], RequestT], late: Callable[[], dict[str, Any]]
    ) -> None:
        self._build = build
        self._late = late
        self._fields = late()
        self._request = build(self._fields)

    def latest(self) -> RequestT:
        """The request with the late fields of this moment."""
        fields = self._late()
        if fields != self._fields:
            self._fields, self._request = fields, self._build(fields)
        return self._request
