"""Tables `[mcp.NAME]` of agentrt.toml."""

from pathlib import Path

import pytest

from agentrt.base.engines.engine_file import read_engine_file
from agentrt.base.engines.tool_server import ToolServer
from agentrt.base.errors import UsageError

FILE = """
[mcp.shop]
command = "python 'my shop.py' --port 1"
env = ["SHOP_KEY"]
cwd = "servers"

[mcp.files]
command = "npx"
args = ["-y", "server files"]
env = { MODE = "read" }

[mcp.web]
url = "https://shop.test/mcp"
headers = { Authorization = "env:WEB_KEY" }
"""


def file_of(folder: Path, text: str) -> Path:
    path = folder / "agentrt.toml"
    path.write_text(text, "utf-8")
    return path


def test_servers(tmp_path: Path) -> None:
    servers = read_engine_file(file_of(tmp_path, FILE)).tool_servers
    command = ("python", "my shop.py", "--port", "1")
    assert servers == {
        "shop": ToolServer("shop", command, "", ("SHOP_KEY",), {}, str(tmp_path / "servers")),
        "files": ToolServer("files", ("npx", "-y", "server files"), "", {"MODE": "read"}, {}, ""),
        "web": ToolServer(
            "web", (), "https://shop.test/mcp", (), {"Authorization": "env:WEB_KEY"}, ""
        ),
    }


WRONG = {
    "[mcp]\nshop = 'python'": r"mcp.shop is no table.*Begin it by \[mcp.shop\]",
    "[mcp.shop]\nurls = 'http://h/mcp'": r"'urls' is no setting of a tool server \(did you mean",
    "[mcp.shop]\nargs = ['x']": "mcp.shop has neither a command nor a URL",
    "[mcp.shop]\ncommand = 'x'\nurl = 'http://h/mcp'": "mcp.shop has both a command and a URL",
    "[mcp.shop]\ncommand = 3": "command is an integer.*Give a string or an array",
    "[mcp.shop]\ncommand = ['x', 3]": "command holds an integer",
    "[mcp.shop]\nurl = 'http://h/mcp'\nenv = ['X']": "env is for a command",
    "[mcp.shop]\ncommand = 'x'\nheaders = {}": "headers is for a URL",
    '[mcp.shop]\ncommand = "x \'y"': "the command cannot be read",
    "[mcp.'a b']\ncommand = 'x'": "mcp: 'a b' is no name",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, text: str) -> None:
    path = file_of(tmp_path, text)
    with pytest.raises(UsageError, match=rf"(?s){WRONG[text]}") as error:
        read_engine_file(path)
    assert str(path) in str(error.value)
