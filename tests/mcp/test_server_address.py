"""Commands, URLs, variables and headers."""

from typing import Any

import pytest

from agentrt import UsageError, mcp_tools
from agentrt.mcp.server_address import ServerAddress


@pytest.mark.parametrize(
    ("server", "command", "name"),
    [
        (
            "python -m 'my server' --port 1",
            ("python", "-m", "my server", "--port", "1"),
            "python my server",
        ),
        (["/opt/bin/shop"], ("/opt/bin/shop",), "shop"),
        ("npx -y @scope/server-shop", ("npx", "-y", "@scope/server-shop"), "npx server-shop"),
    ],
)
def test_commands(server: Any, command: tuple[str, ...], name: str) -> None:
    address = ServerAddress.of(server, (), {})
    assert (address.command, address.name, address.url) == (command, name, "")
    assert address.attributes() == {"network.transport": "pipe"}


def test_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "Bearer secret")
    headers = {"Authorization": "env:SHOP_KEY", "X-Shop": "oslo"}
    address = ServerAddress.of("https://shop.test/mcp", (), headers)
    assert address.headers == {"Authorization": "Bearer secret", "X-Shop": "oslo"}
    assert (address.name, address.is_loopback) == ("shop.test", False)
    assert address.attributes() == {
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "server.address": "shop.test",
        "server.port": 443,
    }
    assert ServerAddress.of("http://127.0.0.1:80/mcp", (), {}).is_loopback


@pytest.mark.parametrize(
    ("server", "more", "problem"),
    [
        ("", {}, "neither a command nor the URL"),
        ([], {}, "neither a command nor the URL"),
        (["shop", 3], {}, "neither a command nor the URL"),
        ("shop 'x", {}, "cannot be read"),
        ("http:///mcp", {}, "is not the URL"),
        ("http://ada:pass@shop.test/mcp", {}, "shop.test has a user"),
        ("http://shop.test/mcp", {"env": ["HOME"]}, "env is for a command"),
        ("http://shop.test/mcp", {"headers": {"Authorization": "Bearer x"}}, "carries a secret"),
        ("http://shop.test/mcp", {"headers": {"Host": "x"}}, "no header of requests"),
        ("shop", {"headers": {"X-Shop": "x"}}, "headers are for a URL"),
        ("shop", {"env": "HOME"}, "is one text"),
        ("shop", {"env": ["NOT_SET_ANYWHERE"]}, "NOT_SET_ANYWHERE holds no"),
        ("shop", {"env": {"KEY": "env:NOT_SET_ANYWHERE"}}, "NOT_SET_ANYWHERE holds no"),
    ],
)
def test_what_cannot_be_used(server: Any, more: Any, problem: str) -> None:
    """It is refused before anything is started, and a password is not repeated."""
    with pytest.raises(UsageError, match=problem) as error:
        mcp_tools(server, **more)
    assert "pass@" not in str(error.value)
    assert "Bearer x" not in str(error.value)
