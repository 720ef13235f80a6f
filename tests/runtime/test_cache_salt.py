"""A salt keeps the runs of one owner from sharing anything with the runs of another."""

from typing import Any

import anyio
import pytest

from agentrt import Unsupported, chat, program
from agentrt.runtime import RunOptions

LONG = "A long question about many things that fills more than a page of memory. " * 4
ASK = chat(system="Be brief.").user(LONG)


@program
async def asks() -> str:
    return await ASK.generate(max_tokens=4)


def play(rig: Any, *salts: str, **options: Any) -> None:
    """One run a salt, all at once."""

    async def main(runtime: Any) -> None:
        async with anyio.create_task_group() as tasks:
            for salt in salts:
                configured = runtime.with_options(RunOptions(cache_salt=salt, **options))
                tasks.start_soon(configured.run, asks)

    rig.main(main)


def rig_of(bench: Any, codec: Any, **more: Any) -> Any:
    return bench(lambda request, prompt: "fine words", codec=codec, **more)


def test_like_requests_are_coalesced_within_a_salt(bench: Any, codec: Any) -> None:
    rig = rig_of(bench, codec, seeds=True)
    play(rig, "a", "b", "a", "", "b", "")
    assert [request.cache_salt for request in rig.backend.seen.requests] == ["a", "b", ""]


def test_hints_carry_the_salt(bench: Any, codec: Any) -> None:
    """One chat of a module, under two salts: each prefix is dropped under its own."""
    rig = rig_of(bench, codec, hints=True)

    @program
    async def forgets() -> str:
        question = ASK.assistant("Yes.").user(LONG)
        return await question.generate(max_tokens=4)

    async def main(runtime: Any) -> None:
        for salt in ("a", "b", ""):
            configured = runtime.with_options(RunOptions(cache_salt=salt))
            await configured.run(forgets)
            await configured.run(asks)

    rig.main(main)
    drops = [one.cache_salt for one in rig.backend.seen.hints if one.hint == "drop"]
    assert drops == ["a", "b", ""]


def test_prefixes_that_later_runs_go_on_from_are_not_dropped(bench: Any, codec: Any) -> None:
    @program
    async def forgets() -> str:
        return await ASK.user(LONG).generate(max_tokens=4)

    for keeps in (False, True):
        rig = rig_of(bench, codec, hints=True)

        async def main(runtime: Any, keeps: bool = keeps) -> None:
            configured = runtime.with_options(RunOptions(keeps_prefixes=keeps))
            for _ in range(2):
                await configured.run(forgets)

        rig.main(main)
        assert bool(rig.backend.seen.hints) is not keeps


@pytest.mark.parametrize("salt", ["", "a"])
def test_an_engine_that_knows_no_salts_is_not_trusted_with_one(
    salt: str, bench: Any, codec: Any
) -> None:
    rig = rig_of(bench, codec)
    can = rig.backend.capabilities
    rig.backend.capabilities = type(can)(can.backend, can.model, can.prompt, can.codec)
    if not salt:
        play(rig, salt)
        return
    with pytest.raises(ExceptionGroup) as raised:
        play(rig, salt)
    assert raised.group_contains(Unsupported, match="does not keep prefixes of different salts")
