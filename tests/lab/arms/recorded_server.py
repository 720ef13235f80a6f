"""A server that gives answers of a real one, as they were recorded.

Arguments: the kind of the server, the port, and `--refused` to end at once as a server does that
does not know an option.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"
MOST_WORDS = 200
"""A chat of more is refused."""


class Recorded(BaseHTTPRequestHandler):
    """Answers by what is asked."""

    protocol_version = "HTTP/1.1"
    kind = ""

    def do_GET(self) -> None:
        """Counters, or the health check."""
        self.send(200, self.recorded(".metrics") if self.path == "/metrics" else b"{}")

    def do_POST(self) -> None:
        """One chat completion."""
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        body = json.loads(text)
        if text.count(" ") > MOST_WORDS:
            self.send(400, self.recorded("-error.json"))
        elif body.get("stream"):
            self.send(200, self.recorded(".sse"))
        elif "structured_outputs" in body or "grammar" in body:
            self.send(200, self.recorded("-form.json"))
        else:
            self.send(200, self.recorded(".json"))

    def recorded(self, ending: str) -> bytes:
        """The content of a recording."""
        return (RECORDED / f"{self.kind}{ending}").read_bytes()

    def send(self, status: int, content: bytes) -> None:
        """Send one whole answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


if __name__ == "__main__":
    if "--refused" in sys.argv:
        sys.exit("unknown option --refused")
    Recorded.kind = sys.argv[1]
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Recorded).serve_forever()
