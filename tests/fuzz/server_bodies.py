"""Malformed and hostile requests to our own server: `python tests/fuzz/server_bodies.py [bodies]`.

A client in order asks once a second meanwhile. Printed are the answers by status, faults with the
number of their case, the client's waits on the quiet and on the busy server, and what is left.
"""

import asyncio
import json
import re
import socket
import statistics
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from tests.fuzz.bodies import GOOD, large_bodies
from tests.fuzz.raw_http import Exchange, post, random_exchange
from tests.fuzz.rounds import SEED, dice_of
from tests.fuzz.server_rig import Canary, Served, canary, served
from tests.serve.test_hostile_bodies import CONSTRAINTS, DEEP, NUMBERS, ODD_TEXTS

CLIENTS = 8
PATIENCE_S = 120
IDLE_S = 0.3
LEAVES_AFTER_S = 0.05
QUIET_S = 20
MOST_ERROR_BYTES = 3_000
TAKEN_BODY_BYTES = 8 << 20
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
INTERNALS = re.compile(
    rb'Traceback|File "|\.py\b|\.rs:\d|panicked|site-packages|last words|torch| object at 0x|/home/'
)
NUMBERED = tuple[str, Exchange]
"""An exchange and the name of its case."""


@dataclass
class Found:
    """Answers of a round.

    Attributes:
        statuses: Number of answers by status; 0 stands for none.
        faults: What should not have happened, with the case's name.
        took_s: Time that each exchange took, with the case's name.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    took_s: list[tuple[float, str]] = field(default_factory=list)


def hostile() -> Iterator[NUMBERED]:
    """Bodies that have ended or stopped a server once."""
    for name, fields in CONSTRAINTS.items():
        yield name, post(json.dumps({**GOOD, **fields}).encode())
    for name, value in NUMBERS.items():
        yield name, post(json.dumps({**GOOD, name: value}).encode())
    for name, text in DEEP.items():
        yield name, post(f"{json.dumps(GOOD)[:-1]}, {text}}}".encode())
    for text in ODD_TEXTS:
        yield "odd text", post(text.encode())


def large() -> Iterator[NUMBERED]:
    """Bodies near and over the size that is taken."""
    for at, body in enumerate(large_bodies()):
        yield f"large {at}", post(body)


def drawn(count: int, first: int = 0) -> Iterator[NUMBERED]:
    """Random exchanges."""
    for case in range(first, first + count):
        yield f"case {case} of seed {SEED}", random_exchange(dice_of(case))


async def bombard(port: int, exchanges: Iterable[NUMBERED], clients: int = CLIENTS) -> Found:
    """Hold all exchanges, some at once, and judge each."""
    found, left = Found(), iter(exchanges)

    async def client() -> None:
        for name, exchange in left:
            began_s = time.monotonic()
            try:
                answer = await asyncio.wait_for(held(port, exchange), PATIENCE_S)
            except TimeoutError:
                found.faults.append(
                    f"{name}: no end within {PATIENCE_S} s: {exchange.data[:300]!r}"
                )
                continue
            found.took_s.append((round(time.monotonic() - began_s, 1), name))
            found.statuses.update(map(int, STATUS.findall(answer)) if answer else [0])
            if fault := fault_of(exchange, answer):
                found.faults.append(f"{name} ({exchange.name}): {fault}: {exchange.data[:300]!r}")

    await asyncio.gather(*(client() for _ in range(clients)))
    return found


async def held(port: int, exchange: Exchange) -> bytes:
    """What the server answers until the client ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    answer = b""
    with suppress(ConnectionError):
        writer.write(exchange.data)
        if exchange.ending == "answer":
            await writer.drain()
            answer = await reader.read()
        elif exchange.ending == "idle":
            answer = await until_idle(reader)
        else:
            with suppress(TimeoutError):
                answer = await asyncio.wait_for(reader.read(100), LEAVES_AFTER_S)
    if exchange.ending == "reset":
        linger = struct.pack("ii", 1, 0)
        one = writer.get_extra_info("socket")
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    return answer


async def until_idle(reader: asyncio.StreamReader) -> bytes:
    answer = b""
    with suppress(TimeoutError):
        while piece := await asyncio.wait_for(reader.read(65_536), IDLE_S):
            answer += piece
    return answer


def fault_of(exchange: Exchange, answer: bytes) -> str:
    """What is wrong with an answer; "" if nothing is."""
    if exchange.ending in ("leave", "reset"):
        return ""
    statuses = [int(status) for status in STATUS.findall(answer)]
    if any(status >= 500 for status in statuses):
        return f"an error of the server: {answer[:600]!r}"
    if found := INTERNALS.search(answer):
        return f"internals ({found[0]!r}) in {answer[:600]!r}"
    if exchange.ending == "idle":
        return ""
    if len(statuses) != 1:
        is_cut_off = not answer and len(exchange.data) > TAKEN_BODY_BYTES
        return "" if is_cut_off else f"{len(statuses)} answers: {answer[:300]!r}"
    body = answer.partition(b"\r\n\r\n")[2]
    if exchange.name == "valid" and statuses != [200]:
        return f"a valid request is refused: {answer[:600]!r}"
    if statuses[0] >= 400:
        return fault_of_refusal(body)
    is_whole = b'"choices"' in body or b"data: [DONE]" in body
    return "" if is_whole else f"half an answer: {body[-300:]!r}"


def fault_of_refusal(body: bytes) -> str:
    if len(body) > MOST_ERROR_BYTES:
        return f"an error of {len(body)} bytes"
    try:
        return "" if json.loads(body)["error"]["message"] else "an error without a message"
    except (ValueError, KeyError, TypeError):
        return f"an error in another form: {body[:300]!r}"


def rounds_of(server: Served, count: int) -> list[Found]:
    """All hostile and large bodies, and random ones."""
    every = (hostile(), large(), drawn(count))
    return [asyncio.run(bombard(server.port, exchanges)) for exchanges in every]


def say_waits(name: str, waits: Canary) -> None:
    took_s = sorted(waits.took_s)
    p50_s, p99_s = statistics.median(took_s), took_s[len(took_s) * 99 // 100]
    print(f"{name}: {len(took_s)} answered, {waits.lost} lost; ", end="")
    print(f"p50 {p50_s:.3f} s, p99 {p99_s:.3f} s, worst {took_s[-1]:.3f} s")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with served() as server:
        with canary(server.port, 1.0) as quiet:
            time.sleep(QUIET_S)
        files, rss_mb, began_s = server.files(), server.rss_mb(), time.monotonic()
        with canary(server.port, 1.0) as busy:
            found = rounds_of(server, count)
        print(f"{count} random, {time.monotonic() - began_s:.0f} s, seed {SEED}")
        for one in found:
            print(dict(sorted(one.statuses.items())), *one.faults, sep="\n  ")
            print("  slowest:", sorted(one.took_s)[-5:])
        say_waits("quiet", quiet)
        say_waits("busy", busy)
        later_s = max(busy.took_s) - statistics.median(quiet.took_s)
        print(f"worst on the busy server: {later_s:.3f} s later than on the quiet one's median")
        is_same, is_idle = server.ask_last()
        print(f"idle {is_idle}, same engine {is_same}")
        print(f"files {files} -> {server.files()}, memory {rss_mb} -> {server.rss_mb()} MB")
        faults = server.faults()
        print(f"exit code {server.end()}, leaked pages {server.leaked_pages}", faults)


if __name__ == "__main__":
    main()
