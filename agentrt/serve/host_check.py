"""Refusal of requests that a browser was led to: foreign names in `Host` and `Origin`.

A page whose name is made to resolve to this machine (DNS rebinding) sends its own name as the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from agentrt.base.loopback import is_loopback
from agentrt.serve.refusal import RequestRefused

_LONGEST_URL = 1024
"""Characters; a name has at most 253."""


@dataclass(frozen=True, slots=True)
class HostCheck:
    """The names under which clients may call a server.

    Attributes:
        names: Names beside those of the loopback; lower case.
    """

    names: frozenset[str] = frozenset()

    def check(self, headers: dict[bytes, bytes]) -> None:
        """Refuse a request with a foreign host or origin; one without them comes from no browser.

        Raises:
            RequestRefused: The request is for another name, or from a page of one.
        """
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if host is not None and not self._is_known(b"//" + host):
            raise RequestRefused(421, "this host is not served here", code="unknown_host")
        if origin is not None and not self._is_known(origin):
            raise RequestRefused(403, "pages of this origin are not served", code="foreign_origin")

    def _is_known(self, url: bytes) -> bool:
        if len(url) > _LONGEST_URL:
            return False
        name, is_own = _name_in(url)
        return is_own or name in self.names


def is_host_name(text: str) -> bool:
    """Whether a text can be the name in a `Host` header, without scheme and port.

    Example:
        >>> is_host_name("gpu.example"), is_host_name("http://gpu.example"), is_host_name("")
        (True, False, False)
    """
    try:
        if ":" in text:
            return bool(IPv6Address(text))
        return text.split() == [text] and urlsplit("//" + text).hostname == text.lower()
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def _name_in(url: bytes) -> tuple[str, bool]:
    """The name of the host in a URL, and whether it is of the loopback."""
    try:
        name = urlsplit(url.decode("ascii")).hostname or ""
    except ValueError:
        return "", False
    return name, is_loopback(name)
