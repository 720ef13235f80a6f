"""Failures in the API's own form."""

from __future__ import annotations

import json
import logging
import secrets
from typing import Any

from agentrt.base.errors import (
    AgentrtError,
    ContextOverflow,
    EngineDied,
    EngineUnavailable,
    OutOfPages,
    ProgramError,
    RequestRejected,
    Unsupported,
)

RETRY_AFTER_S = 1
_LONGEST_MESSAGE = 1_000
_log = logging.getLogger("agentrt.serve")


class RequestRefused(Exception):
    """A request that is not served.

    Args:
        status: Status of the response.
        message: Fault and its place.
        param: Field at fault, or "".
        code: Word for programs.
    """

    def __init__(self, status: int, message: str, *, param: str = "", code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message[:_LONGEST_MESSAGE]
        self.param = param
        self.code = code

    def body(self) -> dict[str, Any]:
        """The JSON of the response."""
        otherwise = "server_error" if self.status >= 500 else "invalid_request_error"
        return {
            "error": {
                "message": self.message,
                "type": _TYPES.get(self.status, otherwise),
                "param": self.param or None,
                "code": self.code or None,
            }
        }

    def headers(self) -> dict[str, str]:
        """Headers by which clients decide on another try."""
        if self.status in (429, 503):
            return {"retry-after": str(RETRY_AFTER_S)}
        headers = {"x-should-retry": "false"}
        if self.status == 413:  # the rest of the body is not read
            headers["connection"] = "close"
        return headers

    def encoded(self) -> bytes:
        """The JSON as bytes."""
        return json.dumps(self.body()).encode()


def refusal_of(error: AgentrtError, *, param: str = "") -> RequestRefused:
    """An error of this package as one of the API's.

    Args:
        error: The failure.
        param: Field at fault, or "".
    """
    code, status = type(error).__name__, 500
    message = str(error)
    if isinstance(error, ProgramError | RequestRejected | Unsupported | OutOfPages):
        status = 400
    elif isinstance(error, EngineUnavailable | EngineDied):
        status = 503
    if isinstance(error, ContextOverflow):
        code = "context_length_exceeded"
    if status >= 500:
        message = noted(_PUBLIC.get(type(error), "the server failed"), error)
    return RequestRefused(status, message, param=param, code=code)


def noted(public: str, error: BaseException) -> str:
    """A message without internals; the log has the error under the same id.

    Args:
        public: Fault as clients may read it.
        error: The error itself.
    """
    error_id = secrets.token_hex(6)
    is_bug = not isinstance(error, AgentrtError)
    _log.error("error %s: %s: %s", error_id, type(error).__name__, error, exc_info=is_bug and error)
    return f"{public} (error {error_id})"


def going_down() -> RequestRefused:
    """The refusal of a server that ends."""
    return RequestRefused(503, "the server is going down", code=EngineUnavailable.__name__)


_PUBLIC: dict[type[AgentrtError], str] = {
    EngineDied: "the engine died: ask again",
    EngineUnavailable: "the engine is gone: ask again later",
}
"""Faults of the engine as clients may read them: without its address, paths and last words."""

_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
"""Types of the faults of clients that have one of their own."""
