"""A plain client of replicas keeps a program on one of them, and limits programs under way."""

import json
import subprocess
import sys
from pathlib import Path

import agentrt.lab.arms

PEERS = Path(agentrt.lab.arms.__file__).parent / "peers"
ROUTES = """
import asyncio, json, sys
from plain_play import Server

async def main():
    server = Server({"url": "http://a/v1,http://b/v1", "model": "m"})
    for chat in json.loads(sys.stdin.read()):
        print(server.url([{"role": "user", "content": text} for text in chat]))

asyncio.run(main())
"""
PLAYS = """
import asyncio, json, sys
from plain_play import PlainClient

class Client(PlainClient):
    under_way, most = 0, 0

    async def open(self, settings): return {}

    def prepare(self, program, played):
        async def run():
            Client.under_way += 1
            Client.most = max(Client.most, Client.under_way)
            await asyncio.sleep(0)
            Client.under_way -= 1
        return run

programs = [{"name": str(at), "at_s": 0.0} for at in range(6)]
for width in (0, 2):
    Client.most = 0
    asyncio.run(Client().play(programs, programs_at_once=width))
    print(Client.most)
"""


def peer(script: str, given: object = None) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=PEERS,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_chats_of_a_program_stay_and_programs_spread() -> None:
    roots = [["be brief", f"question {at}"] for at in range(16)]
    first = peer(ROUTES, roots)
    later = peer(ROUTES, [[*root, "an answer", "go on"] for root in roots])
    assert first == later
    assert 4 <= first.count("http://a/v1") <= 12


def test_programs_under_way_are_limited() -> None:
    assert peer(PLAYS) == ["6", "2"]
