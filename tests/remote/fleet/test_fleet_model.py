"""A fleet has one model: servers that list another one are refused, or left out later."""

import logging

import anyio
import pytest

from agentrt import RemoteEngineConfig, UsageError, chat, program
from agentrt.base.engines.remote_engine_config import FleetMember
from tests.remote.fleet.fleet_servers import FleetServer, fleet_of, runtime_on
from tests.remote.hostile_server import serving

PATH, OTHER_PATH = "/models/q8/small.gguf", "/models/other.gguf"


@program
async def say(what: str) -> str:
    return await chat().user(what).generate(max_tokens=8)


def server(*models: str) -> FleetServer:
    made = FleetServer()
    made.models = list(models)
    return made


def open_fleet(portal, *servers, **settings) -> str:
    """Open a fleet and ask one request."""

    async def main():
        async with fleet_of(servers, **settings) as runtime:
            return await runtime.run(say, "hello")

    return str(portal.call(main))


@pytest.mark.parametrize(
    ("settings", "lists"),
    [
        ({"model": ""}, [["m"], ["n"]]),
        ({"model": "m"}, [["m"], ["n"]]),
        ({"model": "", "kind": "llama-server"}, [[PATH], [OTHER_PATH]]),
    ],
    ids=["unnamed", "named", "paths"],
)
def test_servers_of_different_models_are_no_fleet(portal, settings, lists):
    """The error names both servers and both models, and says what to do."""
    first, second = (server(*one) for one in lists)
    with pytest.raises(UsageError) as refused:
        open_fleet(portal, first, second, **settings)
    message = refused.value.message
    assert all(repr(models[0]) in message for models in lists)
    assert message.count("http://127.0.0.1:") == 2 or settings["model"]
    assert "same model" in refused.value.hint


@pytest.mark.parametrize(
    ("settings", "lists"),
    [
        ({"model": "m"}, [["m"], ["adapter", "m"]]),
        ({"model": "m"}, [["m"], []]),
        ({"model": "m"}, [None, ["m"]]),
        ({"model": "m", "kind": "llama-server"}, [[PATH], [OTHER_PATH]]),
        ({"model": "", "kind": "llama-server"}, [[PATH], ["/data/small.gguf"]]),
        ({"model": "m", "kind": "ollama"}, [["m"], ["n"]]),
    ],
    ids=["longer", "empty", "unreadable", "named paths", "folders", "kind without list"],
)
def test_what_is_equal_or_unknown_passes(portal, settings, lists):
    servers = [FleetServer(), FleetServer()]
    for one, models in zip(servers, lists, strict=True):
        one.models = models
    assert open_fleet(portal, *servers, **settings) == "hello"


def test_members_may_have_names_of_their_own(portal):
    async def main(second_model):
        async with (
            serving(server("m"), doors=True) as a,
            serving(server("n"), doors=True) as b,
        ):
            engines = [
                RemoteEngineConfig(kind="vllm", address=address, model=model)
                for address, model in ((a, "m"), (b, second_model))
            ]
            engine = RemoteEngineConfig(members=tuple(FleetMember(one) for one in engines))
            async with runtime_on(engine) as runtime:
                return await runtime.run(say, "hello")

    assert portal.call(main, "n") == "hello"
    with pytest.raises(UsageError, match="a fleet has one model"):
        portal.call(main, "")


@pytest.mark.parametrize(
    ("settings", "before", "now"),
    [
        ({"model": "m"}, "m", "n"),
        ({"model": ""}, "m", "n"),
        ({"model": "m", "kind": "llama-server"}, PATH, OTHER_PATH),
    ],
    ids=["named", "unnamed", "path"],
)
def test_a_server_that_comes_back_with_another_model_is_left_out(
    portal, caplog, settings, before, now
):
    caplog.set_level(logging.WARNING, "agentrt")

    async def main():
        back, other = server(before), server(before)
        async with fleet_of([back, other], **settings) as runtime:
            back.mode, other.mode = "away", "says"
            await asked_all(runtime)
            back.mode, back.models, count = "says", [now], len(back.asked)
            with anyio.fail_after(30):
                while not left_out(caplog):
                    await runtime.run(say, "again")
            await asked_all(runtime)
            return len(back.asked) - count

    assert portal.call(main) == 0
    (said,) = left_out(caplog)
    assert repr(now) in said
    assert repr(before) in said
    assert said.count("http://127.0.0.1:") == 3, "the one that is left out, and its neighbour"


def test_the_list_is_read_once_for_each_opening_and_return(portal):
    async def main():
        back, other = server("m"), server("m")
        async with fleet_of([back, other], model="") as runtime:
            opened = (back.lists, other.lists)
            back.mode = "away"
            await asked_all(runtime)
            back.mode, back.lists = "says", 0
            count = len(back.asked)
            while len(back.asked) == count:
                await asked_all(runtime)
            return opened, back.lists

    assert portal.call(main) == ((1, 1), 1)


def left_out(caplog) -> list[str]:
    said = [one.getMessage() for one in caplog.records]
    return [one for one in said if "is left out" in one]


async def asked_all(runtime) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(runtime.run, say, f"word {number}")
