"""`agentrt fleet`: what is said of servers, and the list of those that get no new requests."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentrt.cli.main import answer
from agentrt.remote.fleet.drain_list import DrainList
from tests.remote.hostile_server import head, serving

METRICS = b"""# HELP x
vllm:num_requests_running{engine="0"} 3.0
vllm:num_requests_waiting{engine="0"} 2.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
"""


class Worker:
    """A vLLM as far as its doors go."""

    def __init__(self, model: str = "m", *, away: bool = False) -> None:
        self.model, self.away = model, away

    async def __call__(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if self.away:
            writer.write(head("503 Service Unavailable", more="Content-Length: 0\r\n"))
        elif path == "/metrics":
            writer.write(head(kind="text/plain") + METRICS)
        else:
            listed = {"data": [{"id": self.model, "owned_by": "vllm", "max_model_len": 512}]}
            writer.write(head(kind="application/json") + json.dumps(listed).encode())


class Fleet:
    """Servers, and the agentrt.toml that names them."""

    def __init__(self, portal, folder: Path, stack: ExitStack) -> None:
        self._portal, self._folder, self._stack = portal, folder, stack

    def of(self, *workers: Worker, more: str = "") -> list[str]:
        opened = [
            self._stack.enter_context(
                self._portal.wrap_async_context_manager(serving(one, doors=True))
            )
            for one in workers
        ]
        engine = f'[engines.pool]\nkind = "vllm"\naddresses = {json.dumps(opened)}\n'
        (self._folder / "agentrt.toml").write_text(engine + more)
        return [f"{one}/v1" for one in opened]


@pytest.fixture
def fleet(portal, tmp_path, monkeypatch) -> Iterator[Fleet]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with ExitStack() as stack:
        yield Fleet(portal, tmp_path, stack)


def test_status_shows_each_server(fleet, capsys):
    up, down = fleet.of(Worker(), Worker(away=True))
    assert answer(["fleet", "status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "pool"
    assert lines[2].split()[:6] == [up, "up", "3", "2", "25%", "-"]
    assert lines[2].endswith("m")
    assert lines[3].split()[:2] == [down, "down"]
    assert f"{down}: " in lines[4]
    assert "503" in lines[4]
    assert answer(["fleet", "status", "--json", "--engine", "pool"]) == 0
    first, second = json.loads(capsys.readouterr().out)["pool"]
    assert (first["up"], first["running"], first["kv_share"], first["models"]) == (
        *(True, 3.0, 0.25),
        ["m"],
    )
    assert (second["up"], second["health_ms"], second["running"]) == (False, None, None)


def test_status_fails_where_no_server_takes_requests(fleet, capsys):
    fleet.of(Worker(away=True), Worker(away=True))
    assert answer(["fleet", "status"]) == 3
    capsys.readouterr()


def test_servers_of_other_models_are_named(fleet, capsys):
    fleet.of(Worker("a"), Worker("b"))
    assert answer(["fleet", "status"]) == 0
    assert "the servers list different models" in capsys.readouterr().out


def test_drain_is_a_list_that_fleets_read(fleet, capsys, tmp_path):
    first, second = fleet.of(Worker(), Worker())
    assert answer(["fleet", "drain", first.removesuffix("/v1")]) == 0
    assert answer(["fleet", "drain", second]) == 0
    assert answer(["fleet", "undrain", second]) == 0
    capsys.readouterr()
    assert json.loads((tmp_path / "state/agentrt/drained.json").read_text()) == [first]
    assert answer(["fleet", "status"]) == 0
    assert f"{first}  up, drained" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["drain", "http://elsewhere:1"], "is no server of a fleet of agentrt.toml"),
        (["drain", "nonsense"], "ADDRESS: "),
        (["status", "--engine", "http://127.0.0.1:9"], "has one server"),
        (["status", "--engine", "nobody"], "nobody"),
    ],
)
def test_a_server_or_fleet_that_is_not_there_is_one_error(fleet, capsys, command, said):
    fleet.of(Worker(), Worker())
    assert answer(["fleet", *command]) == 2
    assert said in capsys.readouterr().err


def test_without_fleets_the_error_says_how_to_name_one(fleet, capsys):
    assert answer(["fleet", "status"]) == 2
    assert "no fleet: there is no agentrt.toml here or above" in capsys.readouterr().err


def test_doctor_looks_at_each_server(fleet, capsys):
    up, down = fleet.of(Worker(), Worker(away=True))
    assert answer(["doctor", "--engine", "pool"]) == 3
    shown = capsys.readouterr().out
    assert shown.count("address") == 2
    assert up in shown
    assert down in shown
    assert answer(["doctor", "--engine", "pool", "--json"]) == 3
    assert [one["address"] for one in json.loads(capsys.readouterr().out)["servers"]] == [up, down]


def test_changes_at_once_are_all_kept(tmp_path):
    path = tmp_path / "drained.json"
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(
            lambda at: DrainList(path).note(f"http://s{at}/v1", drained=True), range(24)
        ):
            pass
    assert len(DrainList(path).urls()) == 24


def test_status_says_whether_kv_events_arrive(portal, fleet, capsys):
    pytest.importorskip("zmq", reason="ZeroMQ is not installed: pip install 'agentrt[kv-events]'")
    from tests.remote.fleet.kv_publisher import publisher

    with portal.wrap_async_context_manager(publisher()) as server:
        port, replay = server.ports
        asked = f'kv_events = {{ endpoint = "tcp://*:{port}", replay = "tcp://*:{replay}" }}\n'
        (up,) = fleet.of(Worker(), more=asked)
        assert answer(["fleet", "status"]) == 0
        silent = capsys.readouterr().out.splitlines()[-1]
        portal.call(server.publish, ["BlockRemoved", [1]])
        assert answer(["fleet", "status", "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)["pool"]
    assert silent == f"{up}: KV events are connected; none has come"
    assert row["kv_events"] == "arrive"
    assert answer(["fleet", "status"]) == 0
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown == f"{up}: KV events do not come: nothing at tcp://127.0.0.1:{port}"
