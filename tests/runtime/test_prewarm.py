"""Engines are told of the constraints of modules before anybody asks for them."""

import threading
from typing import Any

import anyio
import pytest
from anyio import lowlevel, to_thread
from pydantic import BaseModel

import agentrt.structured
from agentrt import chat, program, regex, tool
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.program import output_types
from agentrt.prompt import Codec
from agentrt.prompt import codec as codecs
from agentrt.runtime import warmup
from agentrt.runtime.warmup import prepare
from agentrt.testing import calls_text
from agentrt.tools import schema

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


class Answer(BaseModel):
    text: str


@tool(effects="pure")
def consult(table: dict[str, str], symbol: str) -> str:
    """What a table says of a symbol."""
    return table[symbol]


@program
async def planned(question: str) -> Answer:
    ask = ASK.user(question)
    plan = ask.calls(consult.bind(table={"A": "B"}), name="plan")
    facts = [call.start() async for call in plan]
    return await plan.ctx.results(facts).generate(Answer)


def test_what_a_program_names_is_built_before_it_runs(
    bench: Any, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one schema, shape or view of the template is made while the program runs."""
    made: list[str] = []

    def counted(where: Any, name: str) -> None:
        real = getattr(where, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            made.append(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(where, name, counting)

    counted(schema, "form_of")
    counted(output_types, "_make")
    counted(agentrt.structured, "calls_spec")
    counted(codecs, "layout_with")
    told = prepare([planned], [codec])
    assert {*made} == {"form_of", "_make", "calls_spec", "layout_with"}
    built = len(made)
    script = [calls_text(("consult", {"symbol": "A"}), frame=codec.call_frame), '{"text":"B"}']
    rig = bench(script, codec=codec)
    assert rig.run(planned, "What of A?") == Answer(text="B")
    assert made[built:] == []
    asked = [one.constraint for one in rig.backend.seen.requests]
    assert len(asked) == 2
    assert all(one in told for one in asked)


def test_what_goes_wrong_ahead_is_nobodys_matter(codec: Codec, monkeypatch: pytest.MonkeyPatch):
    """Engines are told of what was made ready, once; of a failure nothing, and it ends nobody."""
    told: list[tuple[ConstraintSpec, ...]] = []

    class Told:
        def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
            told.append(constraints)

    async def main() -> None:
        for instead in (prepare, None):  # None cannot be called
            monkeypatch.setattr(warmup, "prepare", instead)
            made: Any = [(Told(), codec), (Told(), None)]
            began = warmup.start_warmup([planned], made)
            assert began is not None
            await to_thread.run_sync(began.join)
            await lowlevel.checkpoint()

    anyio.run(main)
    assert told == [prepare([planned], [codec])]


def test_nothing_begins_where_no_program_is_named(codec: Codec) -> None:
    """Neither a thread nor work of the engine."""

    async def main() -> set[threading.Thread]:
        made: Any = [(None, codec)]  # nobody is told of anything
        before = {*threading.enumerate()}
        assert warmup.start_warmup([], made) is None
        return {*threading.enumerate()} - before

    assert anyio.run(main) == set()
