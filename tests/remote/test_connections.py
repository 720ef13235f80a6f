"""A host that is gone is noticed, whether it owes an answer or an acknowledgement."""

import socket

import httpx
import pytest

from agentrt.remote.connections import direct_transport
from tests.remote.hostile_server import head, serving

GONE_S = 30
"""Time that docs/remote_engines.md gives."""


async def hello(path, body, writer):
    writer.write(head())
    await writer.drain()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has these options")
def test_a_connection_ends_once_its_host_is_gone(portal):
    async def main():
        async with serving(hello, doors=True) as url:
            client = httpx.AsyncClient(transport=direct_transport(url), trust_env=False)
            async with client, client.stream("GET", url) as response:
                opened = response.extensions["network_stream"].get_extra_info("socket")
                names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
                return [opened.getsockopt(socket.IPPROTO_TCP, getattr(socket, n)) for n in names]

    idle_s, pause_s, probes, unacknowledged_ms = portal.call(main)
    assert idle_s + pause_s * probes == GONE_S, "the time of a connection that is silent"
    assert unacknowledged_ms == GONE_S * 1000, "no probe is sent while bytes are under way"
