"""`agentrt mcp`: servers of agentrt.toml, and the tools of one."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt.cli.main import answer

SERVER = Path(__file__).parent.parent / "mcp" / "server.py"
FILE = f"""
[mcp.shop]
command = {json.dumps([sys.executable, str(SERVER)])}
env = ["SHOP_KEY"]

[mcp.web]
url = "https://shop.test/mcp"
headers = {{ Authorization = "env:NO_SUCH_KEY" }}
"""
PROGRAM = """
from agentrt import mcp_tools, program

@program
async def job() -> int:
    async with mcp_tools("shop", effects={"price": "read", "die": "idempotent"}) as tools:
        await tools["die"]()
        return len(await tools["price"](item="lamp"))
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agentrt.toml"
    path.write_text(FILE, "utf-8")
    monkeypatch.setenv("AGENTRT_CONFIG", str(path))
    monkeypatch.setenv("SHOP_KEY", "canary")


@pytest.mark.usefixtures("config")
def test_servers_are_listed_without_starting_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["mcp"]) == 0
    shown = capsys.readouterr().out
    assert "NO_SUCH_KEY" in shown
    assert answer(["mcp", "--json"]) == 0
    shown = capsys.readouterr().out
    assert "canary" not in shown
    shop, web = json.loads(shown)["servers"]
    assert shop["address"] == shlex.join([sys.executable, str(SERVER)])
    assert (shop["variables"], shop["not set"]) == (["SHOP_KEY"], [])
    assert (web["address"], web["not set"]) == ("https://shop.test/mcp", ["NO_SUCH_KEY"])


@pytest.mark.usefixtures("config")
def test_the_tools_of_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["mcp", "shop"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "MCP server shop"
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines[2:]}
    assert rows["price"] == ["read", "item, [currency]"]
    assert rows["order"] == ["idempotent", "item, count"]


def test_no_servers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert answer(["mcp"]) == 0
    assert "no MCP servers: there is no agentrt.toml" in capsys.readouterr().out


def test_a_name_that_is_no_server(inside: Callable[..., Any]) -> None:
    told = inside("mcp", "no-such-server")
    assert told.code == 1
    assert "MCP server no-such-server cannot be started" in told.lines[0]
    assert "[mcp.no-such-server] in agentrt.toml" in told.err


@pytest.mark.usefixtures("config")
def test_a_mistyped_name_is_compared_with_those_of_the_file(inside: Callable[..., Any]) -> None:
    told = inside("mcp", "shp")
    assert told.lines[0].endswith("MCP server shp cannot be started: No such file or directory")
    assert told.lines[2] == "fix:   Did you mean shop, which agentrt.toml names?"


def test_a_url_of_another_scheme_is_no_command(inside: Callable[..., Any]) -> None:
    told = inside("mcp", "ftp://host/mcp")
    assert told.code == 2
    assert "'ftp://host/mcp' is not the URL of an MCP server" in told.lines[0]


@pytest.mark.usefixtures("config")
def test_check_names_servers_and_changes_nothing(
    inside: Callable[..., Any], program: Callable[..., Path]
) -> None:
    """The trial calls `price` and makes up a result for `die`, which may change something."""
    program(PROGRAM, "job.py")
    told = inside("check", "job.py")
    assert told.out == (
        "job.py:6: note: opens MCP server shop (a process) [mcp]; "
        "fix: agentrt mcp lists the tools of a server\n"
    )
    assert told.code == 0


def test_check_finds_servers_that_cannot_be_started(
    inside: Callable[..., Any], program: Callable[..., Path]
) -> None:
    program(PROGRAM.replace("shop", "no-such-server"), "job.py")
    told = inside("check", "job.py")
    assert "error: MCP server no-such-server: there is no program no-such-server [mcp]" in told.out
    assert told.code == 1
