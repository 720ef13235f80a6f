"""Runs on the embedded engine, recorded and replayed: real tokens, frames and times."""

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from agentrt import chat, choice, embedded, gather, program, race, tool
from agentrt.base.config import EngineConfig
from agentrt.testing import RecordedRuntime, RecordingRuntime

pytestmark = pytest.mark.model

ENGINE = EngineConfig(Path(embedded.path()), threads=1, kv_bytes=32_000_000)

Symbol = Annotated[str, Field(max_length=4)]


@tool(effects="read")
async def price(symbol: Symbol) -> str:
    """The price of a share."""
    return f'"{len(symbol)}"'


@program
async def worth(question: str) -> Any:
    ask = chat("You are a market analyst.").user(question)
    plan = ask.calls(price, name="plan", max_calls=2, max_tokens=80)
    facts = [one.start() async for one in plan]
    kind = ask.user("Which?").generate(choice("a", "b"), scored=True, name="kind")
    deep = ask.user("Sure?").generate(
        choice("yes", "no"), thinking=8, max_tokens=40, name="deep", logprobs=1
    )
    report = plan.ctx.results(facts).user("Write the report.").generate(max_tokens=20)
    values = await gather(report, kind, deep)
    logprobs = [(one.token_id, one.logprob) for one in deep.meta.logprobs]
    return [*values, [await one for one in facts], deep.thinking, kind.scores, logprobs]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    path = tmp_path_factory.mktemp("recordings") / "worth.jsonl"
    return RecordingRuntime(path, engine=ENGINE).run(worth, "Which returned more, AAPL?"), path


def test_a_replay_is_the_run(recorded: tuple[Any, Path]) -> None:
    before, path = recorded
    engine = RecordedRuntime(path)
    after = engine.run(worth, "Which returned more, AAPL?")
    assert after.value[:5] == before.value[:5]
    assert [one.value for one in after.value[5]] == [one.value for one in before.value[5]]
    assert [one for _, one in after.value[6]] == [one for _, one in before.value[6]]
    assert engine.unused == []
    assert after.usage.output_tokens == before.usage.output_tokens


def test_the_replay_takes_the_recorded_times(recorded: tuple[Any, Path]) -> None:
    before, path = recorded
    after = RecordedRuntime(path).run(worth, "Which returned more, AAPL?")
    own = {one.node_id: one.ledger for one in after.generations}
    for one in before.generations:
        real, virtual = one.ledger, own[one.node_id]
        real_s = real.finished_at_s - max(real.received_at_s, real.completed_at_s)
        virtual_s = virtual.finished_at_s - max(virtual.received_at_s, virtual.completed_at_s)
        assert virtual_s == pytest.approx(real_s, abs=1e-4), one.node_id
        for part in ("queue_s", "prefill_s", "decode_s", "constraint_s"):
            own_s, recorded_s = getattr(virtual, part), getattr(real, part)
            assert own_s == pytest.approx(recorded_s, abs=1e-4), (one.node_id, part)
    assert 0 < after.compound_s <= before.compound_s


@program
async def ordered() -> list[str]:
    """Samples in the order in which they end, some of them in the same step of the engine."""
    ask = chat("Solve step by step.").user("What is 47 + 38?")
    samples = [
        ask.generate(temperature=1.5, max_tokens=8 + at // 2, name=f"s{at}", ignore_eos=True)
        for at in range(6)
    ]
    async with race(samples) as finished:
        return [value async for value in finished]


def test_nodes_end_in_the_recorded_order(tmp_path: Path) -> None:
    path = tmp_path / "ordered.jsonl"
    before = RecordingRuntime(path, engine=ENGINE).run(ordered)
    after = RecordedRuntime(path).run(ordered)
    assert after.value == before.value


def test_frames_are_those_of_the_model(recorded: tuple[Any, Path]) -> None:
    first = json.loads(recorded[1].read_text("utf-8").splitlines()[0])
    frame = first["engines"]["default"]["call_frame"]
    assert frame["special"], "the embedded model writes calls between tokens of its own"
