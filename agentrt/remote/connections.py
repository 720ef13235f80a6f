"""Connections to the servers of remote engines."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

from agentrt.base.loopback import is_loopback

CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=64)
GONE_S = 30
"""Time after which a peer that acknowledges nothing is gone: no reset comes from a host without
power."""

# No probe is sent while bytes are yet to be acknowledged: these have a limit of their own.
_PROBES = {
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": GONE_S * 1000,
}
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in _PROBES.items()
        if hasattr(socket, name)
    ),
]


def direct_transport(url: str) -> httpx.AsyncHTTPTransport | None:
    """Connections that notice a host that is gone; None if the way there is a proxy's."""
    host = urlsplit(url).hostname or ""
    if not is_loopback(host) and getproxies():
        return None
    return httpx.AsyncHTTPTransport(limits=CONNECTIONS, socket_options=_KEEP_ALIVE)
