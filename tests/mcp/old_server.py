"""A server of the protocol of 2025, written from its specification: sessions and notifications.

python tests/mcp/old_server.py [DESCRIPTOR]

It starts in a tenth of the time of one of the SDK. Its tool `turn` swaps another tool, `left` or
`right`. `forget` drops all sessions, as a server does that has been started anew.
"""

import json
import os
import socket
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

VERSION = "2025-06-18"
SESSION = "mcp-session-id"
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
ARGUMENTS = {"variable": ["name"], "die_once": ["mark"]}
state = {"side": "left"}
sessions: set[str] = set()
numbers = count(1)


def messages_for(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Notifications, then the response."""
    method, params = request["method"], request.get("params", {})
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    if method == "initialize":
        yield answer | {
            "result": {
                "protocolVersion": VERSION,
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "old", "version": "1"},
            }
        }
    elif method == "tools/list":
        names = ("turn", state["side"], "forget", "variable", "pid", "die", "die_once")
        yield answer | {"result": {"tools": [shown(name) for name in names]}}
    elif method == "tools/call":
        if params["name"] == "turn":
            state["side"] = "right" if state["side"] == "left" else "left"
            yield CHANGED
        text = result_of(params["name"], params.get("arguments", {}))
        yield answer | {"result": {"content": [{"type": "text", "text": text}]}}
    else:
        yield answer | {"error": {"code": -32601, "message": f"no method {method}"}}


def shown(name: str) -> dict[str, Any]:
    """A tool as it is listed."""
    properties = {one: {"type": "string"} for one in ARGUMENTS.get(name, [])}
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def result_of(name: str, arguments: dict[str, str]) -> str:
    """The text that a tool gives; `die_once` ends the process if its file is not there yet."""
    match name:
        case "forget":
            sessions.clear()
        case "variable":
            return os.environ.get(arguments["name"], "unset")
        case "pid":
            return str(os.getpid())
        case "die":
            os._exit(3)
        case "die_once" if not os.path.exists(arguments["mark"]):
            open(arguments["mark"], "w").close()
            os._exit(3)
    return name


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {}
        if request["method"] == "initialize":
            headers[SESSION] = f"session-{next(numbers)}"
            sessions.add(headers[SESSION])
        elif SESSION in self.headers and self.headers[SESSION] not in sessions:
            return self.give(404, b"")
        if "id" not in request:
            return self.give(202, b"")
        lines = [f"data: {json.dumps(one)}\n\n" for one in messages_for(request)]
        headers["content-type"] = "text/event-stream"
        return self.give(200, "".join(lines).encode(), headers)

    def do_GET(self) -> None:
        self.give(405, b"")

    def do_DELETE(self) -> None:
        self.give(405, b"")

    def give(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def over_stdio() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        for message in messages_for(request) if "id" in request else ():
            print(json.dumps(message), flush=True)


def over_http(descriptor: int) -> None:
    taken = socket.socket(fileno=descriptor)
    listening = ThreadingHTTPServer(taken.getsockname(), Handler, bind_and_activate=False)
    listening.socket.close()
    listening.socket = taken
    listening.server_activate()
    listening.serve_forever()


if __name__ == "__main__":
    over_http(int(sys.argv[1])) if len(sys.argv) > 1 else over_stdio()
