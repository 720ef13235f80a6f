"""What an install without the extra `engine` does: `python tests/light_install.py hidden`.

`hidden` hides the packages of the extra from an install that has them, and gives its commands in
this process; `installed` in its place expects them absent, and gives commands as a shell does.
`tests/test_light_install.py` runs both. What is found goes to standard output as one JSON object.
"""

import io
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ABSENT = ("torch", "transformers", "triton", "tokenizers", "safetensors", "jinja2")
ORDER = '{"item":"lamp","count":3}'
PROGRAM = '''
from pydantic import BaseModel

from agentrt import chat, program


class Order(BaseModel):
    item: str
    count: int


@program
async def order(text: str) -> Order:
    """The order in a text."""
    return await chat(system="Extract the order.").user(text).generate(Order, max_tokens=60)
'''
NEEDS_ENGINE = (
    ("run", "order.py", "--text", "x"),
    ("serve",),
    ("kernels", "build"),
    *(("bench", name) for name in ("engine", "drafts", "compound", "serve", "sessions")),
    ("bench", "gpu", "--json", "gpu.json"),
    ("bench", "structured", "--data", "."),
    *(("sim", name) for name in ("run", "sweep", "load", "fleet")),
    ("sim", "calibrate", "--out", "costs.json"),
    ("sim", "fit", "bench.json", "--out", "costs.json"),
    ("sim", "predict", "--costs", "costs.json"),
    ("sim", "validate", "--costs", "costs.json"),
)
"""Commands for the embedded engine, each in its shortest form."""

NEEDS_NONE = (
    ("init", "start"),
    ("check", "order.py"),
    ("graph", "order.py", "--format", "svg"),
    ("trace", "ls"),
    ("trace", "diff", "last", "last"),
    ("trace", "export", "last"),
)
"""Commands that work with programs and past runs alone."""


class Hidden(MetaPathFinder):
    """Refuses to import the packages that a light install lacks."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Never finds anything itself."""
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


class Told:
    """The end of a command: exit code, standard output and standard error."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


def given_here(*args: str) -> Told:
    """A command in this process."""
    from agentrt.cli.main import answer

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = answer(list(args))
    return Told(code, out.getvalue(), err.getvalue())


def given_in_a_shell(*args: str) -> Told:
    """A command as a shell gives it."""
    command = [str(Path(sys.executable).with_name("agentrt")), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return Told(done.returncode, done.stdout, done.stderr)


class Chats(BaseHTTPRequestHandler):
    """A server of chat completions whose answers are one order; it notes each request."""

    seen: list[str]

    def do_GET(self) -> None:
        self._answer(b'{"data":[{"id":"m"}]}', "application/json")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        delta = {"index": 0, "delta": {"content": ORDER}, "finish_reason": "stop"}
        event = f"data: {json.dumps({'choices': [delta]})}\n\ndata: [DONE]\n\n"
        self._answer(event.encode(), "text/event-stream")

    def _answer(self, body: bytes, kind: str) -> None:
        self.seen.append(f"{self.command} {self.path}")
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Standard error is the commands' alone."""


@contextmanager
def serving(noted: list[str] | None = None) -> Iterator[tuple[str, list[str]]]:
    """The address of the server, and the requests that it has got."""
    seen: list[str] = [] if noted is None else noted
    handler = type("NotedChats", (Chats,), {"seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


def importable() -> list[str]:
    """The packages that should be absent and are not."""
    found = []
    for name in ABSENT:
        try:
            __import__(name)
        except ModuleNotFoundError:
            continue
        found.append(name)
    return found


def tested() -> str:
    """The value of a program on a scripted engine in virtual time, and in a replay."""
    from order import Order, order  # type: ignore[import-not-found]  # written by `main`

    from agentrt.recording import RunRecording
    from agentrt.testing import LoopClock, RecordedRuntime, ScriptedRuntime

    path = Path("run.jsonl")
    recording = RunRecording(path, LoopClock())
    scripted = ScriptedRuntime([ORDER], decode_tokens_per_s=10, observers=[recording])
    value = scripted.run(order, "three lamps").value
    assert isinstance(value, Order), value
    assert RecordedRuntime(path).run(order, "three lamps").value == value
    return str(value.model_dump_json())


def refusal() -> str:
    """The error of a program that is run from Python without an engine."""
    from order import order

    from agentrt import NotInstalled

    try:
        order.run("three lamps")
    except NotInstalled as error:
        return str(error)
    return ""


def main(mode: str) -> None:
    """Do all of it in an empty folder and print what is found."""
    if mode == "hidden":
        sys.meta_path.insert(0, Hidden())
    give = given_here if mode == "hidden" else given_in_a_shell
    with tempfile.TemporaryDirectory() as folder, serving() as (url, seen):
        os.chdir(folder)
        sys.path.insert(0, folder)
        Path("order.py").write_text(PROGRAM)
        engine = f'[engines.known]\nkind = "openai"\naddress = "{url}"\nmodel = "m"\n'
        Path("agentrt.toml").write_text(engine)
        known = give("run", "order.py", "--text", "x", "--engine", "known", "-q")
        requests = list(seen)
        unknown = give("run", "order.py", "--text", "x", "--engine", url, "-q")
        found: dict[str, object] = {
            "python": refusal(),
            "importable": importable(),
            "known": vars(known),
            "requests": requests,
            "unknown": vars(unknown),
            "tested": tested(),
            "refused": {" ".join(args): vars(give(*args)) for args in NEEDS_ENGINE},
            "doctor": vars(give("doctor")),
            "engines": vars(give("engines")),
            "doctor --engine": vars(give("doctor", "--engine", "known")),
            "without an engine": {" ".join(args): vars(give(*args)) for args in NEEDS_NONE},
        }
    found["modules"] = sorted(sys.modules)
    found["site_bytes"] = site_bytes()
    sys.stdout.write(json.dumps(found))


def site_bytes() -> int:
    """Size of all files in site-packages."""
    root = Path(sysconfig.get_path("purelib"))
    return sum(one.stat().st_size for one in root.rglob("*") if one.is_file())


if __name__ == "__main__":
    main(sys.argv[1])
