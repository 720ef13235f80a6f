"""Engines are told of the constraints of modules before anybody asks for them."""

from typing import Any

from agentrt import chat, program, regex

TICKER = regex("[A-Z]{1,5}")
ASK = chat(system="Be brief.")


@program
async def ticker() -> str:
    return await ASK.user("x").generate(TICKER)


def test_constants_of_a_module_are_told_at_the_start(bench: Any) -> None:
    dropped = regex("dropped[0-9]")
    spec = dropped.shape.spec
    del dropped
    rig = bench(["NVDA"])
    assert rig.run(ticker) == "NVDA"
    told = rig.backend.seen.prewarmed
    assert told.count(TICKER.shape.spec) == 1
    assert spec not in told
