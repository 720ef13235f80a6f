"""Adapters of an engine are named like roles, and are one engine all the same."""

from dataclasses import replace
from typing import Any

import pytest

from agentrt import UsageError, chat, gather, program
from agentrt.protocol.events import NodeDeclared
from agentrt.runtime.model_role import ModelRole, models_of

LONG = "A long question about many things that fills more than a page of memory. " * 4
ASK = chat(system="Be brief.").user(LONG)


@program
async def asks(models: list[str | None]) -> list[str]:
    asked = [
        ASK.generate(max_tokens=4) if one is None else ASK.generate(max_tokens=4, model=one)
        for one in models
    ]
    return list(await gather(*asked))


def rig_of(bench: Any, codec: Any, *adapters: str, **more: Any) -> Any:
    rig = bench(lambda request, prompt: "fine words", codec=codec, **more)
    rig.backend.capabilities = replace(rig.backend.capabilities, adapters=adapters)
    return rig


def test_like_requests_of_different_adapters_are_different(bench: Any, codec: Any) -> None:
    rig = rig_of(bench, codec, "judge", "coder", seeds=True)
    rig.run(asks, [None, "judge", "coder", "judge", None, "coder"])
    assert [one.adapter for one in rig.backend.seen.requests] == ["", "judge", "coder"]


def test_all_share_the_memory_of_their_engine(bench: Any, codec: Any) -> None:
    """Admission and order see one engine, and the trace names the adapter."""
    rig = rig_of(bench, codec, "judge")
    rig.run(asks, [None, "judge"])
    declared = [one for one in rig.recorder.of(NodeDeclared) if one.kind == "generate"]
    assert [one.model for one in declared] == ["default", "default"]
    assert [one.attributes.get("agentrt.adapter") for one in declared] == [None, "judge"]


def test_hints_carry_the_adapter(bench: Any, codec: Any) -> None:
    rig = rig_of(bench, codec, "judge", hints=True)

    @program
    async def forgets(models: list[str]) -> None:
        for model in models:
            question = ASK.assistant("Yes.").user(LONG)
            await question.generate(max_tokens=4, model=model)

    async def main(runtime: Any) -> None:
        await runtime.run(forgets, ["judge", "default"])
        await runtime.run(asks, [None])

    rig.main(main)
    drops = [one.adapter for one in rig.backend.seen.hints if one.hint == "drop"]
    assert drops == ["judge", ""]


def test_an_unknown_model_names_the_adapters(bench: Any, codec: Any) -> None:
    with pytest.raises(UsageError, match="no engine has the role 'juge'") as caught:
        rig_of(bench, codec, "judge").run(asks, ["juge"])
    assert "default, default+judge, judge" in (caught.value.hint or "")


def test_a_name_is_of_one_model(bench: Any, codec: Any) -> None:
    with pytest.raises(UsageError, match="has the name of another model"):
        rig_of(bench, codec, "default").run(asks, [None])


def test_an_adapter_is_named_behind_a_role_too(bench: Any, codec: Any) -> None:
    rig = rig_of(bench, codec, "judge", seeds=True)
    rig.run(asks, ["default+judge", "judge", "default"])
    assert [one.adapter for one in rig.backend.seen.requests] == ["judge", ""]


def test_engines_of_several_roles_may_have_the_same_adapter(bench: Any, codec: Any) -> None:
    first, second, third = (rig_of(bench, codec, "judge").backend for _ in range(3))
    roles = {"planner": ModelRole("planner", first, codec)}
    roles["default"] = ModelRole("default", second, codec)
    found = models_of(roles)
    assert {name: (one.role, one.adapter) for name, one in found.items()} == {
        "planner": ("planner", ""),
        "default": ("default", ""),
        "judge": ("default", "judge"),
        "default+judge": ("default", "judge"),
        "planner+judge": ("planner", "judge"),
    }
    del roles["default"]
    with pytest.raises(UsageError, match="has the name of another model"):
        models_of({**roles, "critic": ModelRole("critic", third, codec)})
