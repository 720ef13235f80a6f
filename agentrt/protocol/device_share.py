"""Shares of a device among the requests that are in flight at the same time."""

from __future__ import annotations

from agentrt.base.ids import RequestId


class DeviceShare:
    """Shares the time of an engine that reports no batches.

    While any request is in flight, the device works; each instant is shared evenly by the requests
    of that instant. So the shares sum to the time that the device was in use.
    """

    def __init__(self) -> None:
        self._begun_s: dict[RequestId, float] = {}
        self._passed_s = 0.0
        self._at_s = 0.0

    def begin(self, request_id: RequestId, now_s: float) -> None:
        """Note that a request has begun."""
        self._advance(now_s)
        self._begun_s[request_id] = self._passed_s

    def end(self, request_id: RequestId, now_s: float) -> float:
        """Note that a request has ended; gives its share in seconds, 0.0 if it is unknown."""
        self._advance(now_s)
        begun_s = self._begun_s.pop(request_id, None)
        return 0.0 if begun_s is None else self._passed_s - begun_s

    def _advance(self, now_s: float) -> None:
        if self._begun_s:
            self._passed_s += max(0.0, now_s - self._at_s) / len(self._begun_s)
        self._at_s = now_s
