"""Adapters behind the API: the model of a request picks one, and all of them are listed."""

import json
from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest
import torch
from safetensors.torch import save_file

from agentrt import LoraAdapter, chat, gather, open_runtime, program
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.serve import ServeConfig, serving
from tests.serve.conftest import body, client, events

NAMES = ("tiny", "judge", "coder")
RANK, WIDTH, LAYERS = 4, 32, 2
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 12}},
}
SCHEMA |= {"required": ["a"], "additionalProperties": False}


def adapter(folder: Any, seed: int) -> None:
    """An adapter of the queries of every layer."""
    source = torch.Generator().manual_seed(seed)
    place = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight"
    shapes = {"A": (RANK, WIDTH), "B": (WIDTH, RANK)}
    tensors = {
        place.format(layer, which): torch.randn(shape, generator=source) * 3
        for layer in range(LAYERS)
        for which, shape in shapes.items()
    }
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 8, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))


@pytest.fixture(scope="module")
def adapted(tiny: EngineConfig, tmp_path_factory: pytest.TempPathFactory) -> EngineConfig:
    """The tiny engine with two adapters."""
    place = tmp_path_factory.mktemp("adapters")
    for seed, name in enumerate(NAMES[1:]):
        adapter(place / name, seed)
    return replace(tiny, adapters=tuple(LoraAdapter(one, place / one) for one in NAMES[1:]))


@pytest.fixture(scope="module")
def url(adapted: EngineConfig, portal: Any) -> Any:
    """The address of a server of them."""
    opening = open_runtime(engine=adapted, place="thread", scheduler=SchedulerConfig(policy="fcfs"))
    config = ServeConfig("tiny", port=0, grace_s=1)
    with portal.wrap_async_context_manager(serving(config, opening)) as address:
        yield address


@pytest.fixture
def post(portal: Any, url: str) -> Any:
    def send(path: str, json: Any) -> httpx.Response:
        async def main() -> httpx.Response:
            async with client(url) as one:
                return await one.post(path, json=json)

        response: httpx.Response = portal.call(main)
        return response

    return send


def text_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


def test_the_model_of_a_request_picks_its_adapter(post: Any, adapted: EngineConfig) -> None:
    @program
    async def answers() -> list[str]:
        asked = chat().user("Say something.")
        roles = ("default", *NAMES[1:])
        return await gather(
            *(asked.generate(model=one, max_tokens=8, temperature=0.0) for one in roles)
        )

    async def expected() -> list[str]:
        async with open_runtime(engine=adapted, place="thread") as runtime:
            return await runtime.run(answers)

    with anyio.from_thread.start_blocking_portal() as portal:
        wanted = portal.call(expected)
    assert len(set(wanted)) == 3, "each adapter has its own answer"
    for name, text in zip(NAMES, wanted, strict=True):
        answer = post("/chat/completions", body(model=name))
        assert text_of(answer) == text
        assert answer.json()["model"] == name


def test_every_route_and_form_knows_them(post: Any) -> None:
    whole = {one: text_of(post("/chat/completions", body(model=one))) for one in NAMES}
    for name, text in whole.items():
        stream = events(post("/chat/completions", body(model=name, stream=True)).text)
        assert "".join(one["choices"][0]["delta"].get("content", "") for one in stream) == text
        assert {one["model"] for one in stream} == {name}
    asked = {"prompt": "Say", "max_tokens": 6, "temperature": 0}
    texts = {
        one: post("/completions", {**asked, "model": one}).json()["choices"][0]["text"]
        for one in NAMES
    }
    assert len(set(texts.values())) == 3
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
    shaped = {  # read in a process of its own
        one: text_of(
            post("/chat/completions", body(model=one, response_format=form, max_tokens=40))
        )
        for one in NAMES
    }
    assert all(isinstance(json.loads(text)["a"], str) for text in shaped.values())
    assert len(set(shaped.values())) > 1


def test_they_are_listed_behind_their_model(portal: Any, url: str) -> None:
    async def main() -> Any:
        async with client(url) as one:
            return (await one.get("/models")).json()["data"]

    listed = portal.call(main)
    assert [one["id"] for one in listed] == list(NAMES)
    assert [one.get("parent") for one in listed] == [None, "tiny", "tiny"]
    assert len({one["max_model_len"] for one in listed}) == 1


def test_an_unknown_name_is_one_clear_error(post: Any) -> None:
    for path, asked in (
        ("/chat/completions", body(model="juge")),
        ("/completions", {"prompt": "Say", "model": "juge"}),
    ):
        answer = post(path, asked)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (
            404,
            "model_not_found",
            "model",
        )
        assert "'juge' is not served here; 'tiny', 'judge', 'coder' are" in error["message"]
