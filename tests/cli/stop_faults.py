"""Faults under which commands and runs are stopped: programs, servers and broken engines."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from tests.remote.hostile_server import MODELS, WHOLE, content, event, head

PROGRAMS = """
import asyncio, os, time
from pathlib import Path
import anyio
from agentrt import ask, chat, gather, program, tool

HOUR_S = 3600
SAY = chat(system="Be brief.")

def begin() -> None:
    Path("now").write_text(str(time.time()))
    os.replace("now", "begun")

@tool(effects="read")
async def slow_async() -> int:
    begin()
    await anyio.sleep(HOUR_S)
    return 1

@tool(effects="read")
def slow_thread() -> int:
    begin()
    time.sleep(HOUR_S)
    return 1

@tool(effects="read", process=True)
def slow_process() -> int:
    time.sleep(HOUR_S)
    return 1

@tool(effects="write")
def pay() -> int:
    begin()
    time.sleep(3)
    Path("paid").touch()
    return 1

@tool(effects="read")
async def blocks() -> int:
    begin()
    time.sleep(HOUR_S)
    return 1

@tool(effects="read")
async def stays() -> int:
    begin()
    while True:
        try:
            await asyncio.sleep(HOUR_S)
        except asyncio.CancelledError:
            pass

@tool(effects="read")
async def in_thread() -> int:
    begin()
    await asyncio.to_thread(time.sleep, 40)
    return 1

@tool(effects="read")
async def in_anyio_thread() -> int:
    begin()
    await anyio.to_thread.run_sync(time.sleep, 40)
    return 1

@tool(effects="read")
async def waits(n: int) -> int:
    await anyio.sleep(HOUR_S)
    return n

@tool(effects="read")
def large() -> str:
    return "Of cabbages and kings, 1871. " * 130_000

@program
async def talk() -> str:
    begin()
    while True:
        await SAY.user("Go on and on.").generate(max_tokens=200)

@program
async def load() -> str:
    return await SAY.user("Hello.").generate(max_tokens=4)

@program
async def read_async() -> int:
    return await slow_async()

@program
async def read_thread() -> int:
    return await slow_thread()

@program
async def read_process() -> int:
    begin()
    return await slow_process()

@program
async def write() -> int:
    return await pay()

@program
async def tool_blocks() -> int:
    return await blocks()

@program
async def tool_stays() -> int:
    return await stays()

@program
async def tool_in_thread() -> int:
    return await in_thread()

@program
async def tool_in_anyio_thread() -> int:
    return await in_anyio_thread()

@program
async def blocks_at_end() -> int:
    begin()
    try:
        await anyio.sleep(HOUR_S)
    finally:
        time.sleep(HOUR_S)

@program
async def long_end() -> int:
    begin()
    try:
        await anyio.sleep(HOUR_S)
    finally:
        with anyio.CancelScope(shield=True):
            await slow_async()

@program
async def spins() -> int:
    begin()
    while True:
        pass

@program
async def catches_all() -> int:
    begin()
    while True:
        try:
            await anyio.sleep(HOUR_S)
        except BaseException:
            pass

@program
async def fork() -> int:
    calls = [waits(n) for n in range(5000)]
    await anyio.sleep(0.3)
    begin()
    return len(await gather(*calls))

@program
async def one_of_many(n: int = 0) -> int:
    if n == 20:
        begin()
    if n >= 20:
        await anyio.sleep(HOUR_S)
    return n

@program
async def reads_large() -> str:
    begin()
    return await SAY.user("Read this: ", large()).generate(max_tokens=4)

@program
async def asks() -> str:
    begin()
    return await ask(str, "Go on?")
"""

HANGING = """
import sys, threading, time
from pathlib import Path

def watch() -> None:
    while not Path({folder!r}, "hang").exists() or "agentrt.engine.core" not in sys.modules:
        time.sleep(0.01)
    sys.modules["agentrt.engine.core"].EngineCore.step = lambda core: time.sleep(3600)

if "agentrt.engine.process.main" in sys.orig_argv:
    threading.Thread(target=watch, daemon=True).start()
"""
"""A `sitecustomize` by which an engine hangs in its next step, once the file `hang` is there."""

Engine = Literal["none", "embedded", "stopped", "hung", "killed", "loading", "stopped_loading"]
Holds = Literal["", "write", "loop", "thread"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong while a run is stopped.

    Attributes:
        program: Name of the program.
        engine: State of an embedded engine; "none" takes a server.
        server: How the server answers the program.
        batch: Whether the program runs as a batch.
        holds: What may be held: the process by a "write" tool, the run by code on the "loop", a
            process of the user's own by a "thread" of it.
        codes: Exit codes that may stand for a passed deadline.
        has_deadline: Whether a deadline begins at a known time.
    """

    program: str
    engine: Engine = "none"
    server: str = "good"
    batch: bool = False
    holds: Holds = ""
    codes: tuple[int, ...] = (5,)
    has_deadline: bool = True


FAULTS = {
    "engine stopped": Fault("talk", "stopped"),
    "engine hung in a step": Fault("talk", "hung"),
    "engine killed again and again": Fault("talk", "killed"),
    "engine loading": Fault("load", "loading", has_deadline=False),
    "engine stopped at loading": Fault("load", "stopped_loading", has_deadline=False),
    "server silent at opening": Fault("talk", server="silent at opening"),
    "server silent before a byte": Fault("talk", server="silent"),
    "server silent in the middle": Fault("talk", server="stalls"),
    "server drips": Fault("talk", server="drips"),
    "server refuses": Fault("talk", server="refuses", codes=(3, 5)),
    "read tool, async": Fault("read_async"),
    "read tool, thread": Fault("read_thread"),
    "read tool, process": Fault("read_process"),
    "write tool": Fault("write", holds="write"),
    "tool blocks the loop": Fault("tool_blocks", holds="loop"),
    "tool ignores cancellation": Fault("tool_stays"),
    "tool in a thread of the loop": Fault("tool_in_thread", holds="thread"),
    "tool in a thread of anyio": Fault("tool_in_anyio_thread", holds="thread"),
    "program blocks at its end": Fault("blocks_at_end", holds="loop"),
    "program has a long end": Fault("long_end"),
    "program spins": Fault("spins", holds="loop"),
    "program catches everything": Fault("catches_all"),
    "fork of 5,000": Fault("fork"),
    "batch in the middle": Fault("one_of_many", batch=True),
    "large result is tokenised": Fault("reads_large", "embedded", codes=(2, 5)),
    "question without an answer": Fault("asks"),
}


class Answers(socketserver.StreamRequestHandler):
    """One request to a server whose generations go wrong; its probes go well."""

    server: "BadServer"

    def handle(self) -> None:
        lines = iter(self.rfile.readline, b"\r\n")
        first = next(lines, b"")
        sizes = [int(x.split(b":")[1]) for x in lines if x.lower().startswith(b"content-length:")]
        body = self.rfile.read(sizes[0]) if sizes else b""
        how = self.server.how
        if how == "silent at opening":
            self.server.asked.set()
            self.server.over.wait()
        elif b"/models" in first:
            self.wfile.write(head(kind="application/json") + MODELS)
        elif how == "good" or b"Say hello." in body:
            self.wfile.write(head() + WHOLE)
        else:
            self.server.asked.set()
            self.go_wrong(how)

    def go_wrong(self, how: str) -> None:
        if how == "refuses":
            status = "503 Service Unavailable"
            self.wfile.write(head(status, "application/json", "Retry-After: 1\r\n") + b"{}")
            return
        if how != "silent":
            self.wfile.write(head() + event(content("Once ")))
        while how == "drips" and not self.server.over.wait(1.0):
            self.wfile.write(event(content("a"))[:1])
        self.server.over.wait()


class BadServer(socketserver.ThreadingTCPServer):
    """A server on the loopback.

    Attributes:
        how: How it answers generations.
        asked: Set once it was asked what it does not answer.
        over: Ends its answers.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, how: str) -> None:
        self.how = how
        self.asked = threading.Event()
        self.over = threading.Event()
        super().__init__(("127.0.0.1", 0), Answers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients leave."""


@contextmanager
def bad_server(how: str) -> Iterator[BadServer]:
    """A server that answers so."""
    with BadServer(how) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()


IN_PROCESS = """
import asyncio, json, os, sys, time
from pathlib import Path
import job
from agentrt.app import open_runtime
from agentrt.base.config import RunConfig
from agentrt import embedded
from agentrt.base.config import EngineConfig

name, way, engine, deadline_s = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
program = getattr(job, name)

def note(what: str, **more: object) -> None:
    print(json.dumps({"what": what, "at": time.time(), **more}), flush=True)

async def whole() -> None:
    config = RunConfig(deadline_s=deadline_s) if way == "deadline" else RunConfig()
    choice = EngineConfig(embedded.path()) if engine == "embedded" else engine
    async with open_runtime(engine=choice, config=config) as runtime:
        try:
            await runtime.run(program)
        except BaseException as error:
            note("ended", error=type(error).__name__)
            raise

async def main() -> None:
    task = asyncio.create_task(whole())
    while way == "cancel" and not Path("stop").exists():
        await asyncio.sleep(0.005)
    if way == "cancel":
        task.cancel()
    try:
        await task
    except BaseException as error:
        note("ended", error=type(error).__name__)

if way == "interrupt":
    program.run()
else:
    asyncio.run(main())
"""
