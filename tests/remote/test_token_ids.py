"""Programs over a server that takes and gives token ids: prompts go on behind those of answers."""

from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import httpx
import pytest
from pydantic import BaseModel

from agentrt import (
    Calls,
    Final,
    RemoteEngineConfig,
    UsageError,
    cfg,
    chat,
    choice,
    program,
    regex,
    tool,
)
from agentrt.app import open_runtime
from agentrt.base.clock import MonotonicClock
from agentrt.base.engines.remote_engine_config import Fallbacks, FleetMember
from agentrt.protocol.events import NodeFinished, Scheduled
from agentrt.remote import RemoteBackend
from agentrt.remote.remote_engines import codec_at
from agentrt.remote.report import report_of
from tests.remote.hostile_server import head, serving
from tests.runtime.conftest import Recorder

ASK = chat(system="Be brief.")
Digit = Literal[1, 2, 3]


class Box(BaseModel):
    size: Digit
    lid: bool


@tool(effects="pure")
def double(x: Digit) -> int:
    """Twice x."""
    return 2 * x


def engine(address, tiny, model="tiny", **more):
    return RemoteEngineConfig(
        kind="vllm", address=address, model=model, tokenizer=str(tiny.model_path), **more
    )


@pytest.fixture(scope="module")
def run(portal, server_url, tiny):
    recorder = Recorder()
    opened = open_runtime(engine=engine(server_url, tiny), observers=[recorder])
    with portal.wrap_async_context_manager(opened) as runtime:
        yield lambda called: portal.call(runtime.run, called)


def bodies(server_url, behind=0):
    found = httpx.get(f"{server_url}/v1/seen").json()["requests"]
    return [one["body"] for one in found[behind:] if "prompt" in one["body"]]


OUTPUTS: dict[str, tuple[Any, Any]] = {
    "a Literal": (Literal["yes", "no"], str),
    "a choice": (choice("a", "b"), str),
    "digits": (Digit, int),
    "an object": (Box, Box),
    "a list": (list[bool], list),
    "a regex": (regex("[a-c]{2,4}"), str),
    "a grammar": (cfg('start: "x" ("y" | "z")'), str),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_is_of_its_type(run, name):
    form, kind = OUTPUTS[name]

    @program
    async def output() -> Any:
        return await ASK.generate(form, max_tokens=200, temperature=1.0, on_limit="close")

    assert isinstance(run(output), kind)


def test_calls_stand_in_the_frame_of_the_model(run, server_url):
    before = len(httpx.get(f"{server_url}/v1/seen").json()["requests"])

    @program
    async def plan() -> Any:
        made = ASK.user("Double.").calls(double, max_tokens=400, max_calls=2, on_limit="close")
        started = [call.start() async for call in made]
        results = [await one for one in started]
        then = made.ctx.results(started).user("Now?").generate(Literal["a", "b"])
        return results, await then

    results, answer = run(plan)
    assert set(results) <= {2, 4, 6}
    assert results
    assert answer in ("a", "b")
    first, second = bodies(server_url, before)
    assert first["response_format"]["type"] == "structural_tag"
    assert second["prompt"][: len(first["prompt"])] == first["prompt"]
    assert len(second["prompt"]) > len(first["prompt"])


def test_a_step_is_calls_or_an_answer(run):
    @program
    async def step() -> Any:
        return await ASK.step(tools=[double], final=Box, max_tokens=400, on_limit="close")

    found = run(step)
    assert isinstance(found, Calls) or (isinstance(found, Final) and isinstance(found.value, Box))


def test_a_prompt_goes_on_behind_the_ids_of_the_answers(run, server_url):
    before, answers = len(httpx.get(f"{server_url}/v1/seen").json()["requests"]), []

    @program
    async def talk() -> None:
        asked = ASK
        for number in range(4):
            node = asked.user(f"Number {number}?").generate(max_tokens=20, temperature=1.0)
            await node
            answers.append(node.written.generated.token_ids)
            asked = node.ctx

    run(talk)
    for (first, ids), (second, _) in pairwise(
        zip(bodies(server_url, before), answers, strict=True)
    ):
        assert ids
        known = [*first["prompt"], *ids]
        assert second["prompt"][: len(known)] == known


def test_a_stop_string_ends_text_and_ids(run):
    @program
    async def whole() -> str:
        return await ASK.user("Speak.").generate(max_tokens=40, temperature=0.0)

    text = run(whole)
    stop = text[len(text) // 2 :][:2]

    @program
    async def stopped() -> tuple[str, str]:
        node = ASK.user("Speak.").generate(max_tokens=40, temperature=0.0, stop=[stop])
        return await node, node.meta.stopped_by

    assert run(stopped) == (text[: text.index(stop)], stop)


def test_a_text_that_breaks_off_goes_on_behind_its_ids(portal, server_url, tiny):
    recorder = Recorder()

    @program
    async def long() -> str:
        node = ASK.user("Go on.").generate(max_tokens=106, temperature=0.0, ignore_eos=True)
        pieces = [piece async for piece in node.stream()]
        assert "".join(pieces) == await node
        return await node

    async def play(model):
        chosen = engine(server_url, tiny, model, limits={"pause_s": 0.0})
        async with open_runtime(engine=chosen, observers=[recorder]) as runtime:
            return await runtime.run(long)

    wanted = portal.call(play, "tiny")
    before = len(httpx.get(f"{server_url}/v1/seen").json()["requests"])
    recorder.events.clear()
    assert portal.call(play, "tiny-cut") == wanted
    sent = bodies(server_url, before)
    assert len(sent) > 1
    for first, second in pairwise(sent):
        gone_on = len(second["prompt"]) - len(first["prompt"])
        assert gone_on > 0
        assert second["prompt"][: len(first["prompt"])] == first["prompt"]
        assert second["max_tokens"] == first["max_tokens"] - gone_on
    again = [one for one in recorder.events if isinstance(one, Scheduled)]
    assert [one.decision for one in again].count("resubmitted") == len(sent) - 1
    (ended,) = [one for one in recorder.events if isinstance(one, NodeFinished) and one.ledger]
    assert ended.ledger is not None
    assert ended.ledger.output_tokens == 106
    assert ended.attributes["agentrt.prompt.form"] == "tokens"


def test_a_list_that_breaks_off_is_written_anew(portal, server_url, tiny):
    @program
    async def listed() -> list[Digit]:
        node = ASK.user("List.").each(Digit, max_tokens=140, temperature=1.0, min_items=12)
        items = [item async for item in node]
        assert items == await node
        return items

    async def play(model):
        chosen = engine(server_url, tiny, model, limits={"pause_s": 0.0})
        async with open_runtime(engine=chosen) as runtime:
            return await runtime.run(listed)

    wanted = portal.call(play, "tiny")
    before = len(httpx.get(f"{server_url}/v1/seen").json()["requests"])
    assert portal.call(play, "tiny-cut") == wanted
    first, second = bodies(server_url, before)
    assert first == second, "a grammar begins at the beginning"


OTHER = b'{"tokens": [1, 2, 3], "count": 3, "max_model_len": 4096}'
MODELS = b'{"data": [{"id": "tiny", "max_model_len": 4096}]}'


async def with_other_tokenizer(path, body, writer):
    writer.write(head(kind="application/json") + (MODELS if path.endswith("/models") else OTHER))
    await writer.drain()


def test_another_tokenizer_is_refused(portal, tiny):
    async def main():
        async with (
            serving(with_other_tokenizer, doors=True) as url,
            open_runtime(engine=engine(url, tiny)),
        ):
            pass

    with pytest.raises(UsageError, match="has another tokenizer than"):
        portal.call(main)


def test_the_report_says_how_prompts_are_sent(portal, server_url, tiny):
    async def report(codec):
        backend = RemoteBackend(engine(server_url, tiny), clock=MonotonicClock(), codec=codec)
        await backend.start()
        found = report_of(backend.server)["prompts"], backend.capabilities
        await backend.aclose()
        return found

    codec = codec_at(str(tiny.model_path))
    said, takes = portal.call(report, codec)
    assert said == f"token ids (tokenizer of {tiny.model_path}, the same there)"
    assert (takes.prompt, takes.codec, takes.resumes) == ("tokens", codec.fingerprint, True)
    said, takes = portal.call(report, None)
    assert said.startswith("messages")
    assert (takes.prompt, takes.codec, takes.resumes) == ("messages", "", False)


def test_a_fallback_without_a_tokenizer_takes_messages(portal, server_url, tiny, caplog):
    plain = RemoteEngineConfig(kind="vllm", address=server_url, model="tiny", name="plain")
    chosen = engine(server_url, tiny, fallbacks=Fallbacks(down=(plain,)))

    @program
    async def short() -> str:
        return await ASK.user("Hm.").generate(max_tokens=4)

    async def main():
        async with open_runtime(engine=chosen) as runtime:
            await runtime.run(short)

    before = len(httpx.get(f"{server_url}/v1/seen").json()["requests"])
    portal.call(main)
    assert not bodies(server_url, before)
    assert caplog.text.count("are sent as messages: plain has no tokenizer, or another one") == 1


@program
async def asked() -> str:
    return await ASK.user("Fleet.").generate(max_tokens=4)


@pytest.mark.parametrize("same", [True, False])
def test_a_fleet_takes_ids_if_all_of_its_servers_have_the_tokenizer(
    portal, server_url, tiny, caplog, same
):
    other = server_url.replace("127.0.0.1", "localhost")
    first, second = (
        FleetMember(engine(address, tiny, name=name))
        for name, address in (("first", server_url), ("second", other))
    )
    if not same:
        second = FleetMember(replace(second.engine, tokenizer=""))
    fleet = RemoteEngineConfig(name="both", members=(first, second))

    async def main():
        async with open_runtime(engine=fleet) as runtime:
            await runtime.run(asked)

    before = len(httpx.get(f"{server_url}/v1/seen").json()["requests"])
    portal.call(main)
    assert bool(bodies(server_url, before)) == same
    assert ("prompts of both are sent as messages: second has no" in caplog.text) != same
