"""What nodes, runs and tenants have cost: each token is paid once, and those in vain are shown."""

from decimal import Decimal
from typing import Any

import pytest

from agentrt import NodeCancelled, Prices, chat, json_schema, program
from agentrt.analysis import RunRecord, latency_line, summary, usage
from agentrt.protocol.events import NodeFinished
from agentrt.runtime import RunOptions
from agentrt.telemetry import build

PRICES = Prices.of(input=1, cached_input="0.1", output=10)
ANSWER = "it scatters"
QUESTION = chat(system="Be brief.").user("Why is the sky blue?")


def rig_of(bench: Any, script: Any = None, **more: Any) -> Any:
    speeds = {"decode_tokens_per_s": 10.0, "seeds": True, "prices": PRICES} | more
    return bench(script or (lambda request, prompt: ANSWER), **speeds)


def record_of(rig: Any) -> RunRecord:
    record = RunRecord()
    record.on_events(rig.recorder.events)
    return record


@program
async def ask_once() -> Decimal | None:
    gen = QUESTION.generate()
    await gen
    return gen.meta.ledger.cost


def test_a_node_a_run_and_a_tenant_have_the_cost_of_their_tokens(bench: Any) -> None:
    rig = rig_of(bench)

    async def body(runtime: Any) -> Any:
        cost = await runtime.with_options(RunOptions(tenant="acme")).run(ask_once)
        return cost, runtime.tenants["acme"]

    cost, account = rig.main(body)
    record = record_of(rig)
    (ended,) = [e.ledger for e in rig.recorder.of(NodeFinished) if e.ledger is not None]
    assert ended.cost_pico == PRICES.tokens_pico(ended.prompt_tokens, 0, len(ANSWER))
    assert cost == ended.cost == account.cost
    assert account.output_tokens == len(ANSWER)
    told = summary(record)["usage"]
    assert (told["cost"], told["currency"]) == (format(cost, "f").rstrip("0"), "USD")
    assert told["discarded_cost"] == "0"
    assert f"| cost {usage(record).money()} |" in latency_line(record)
    root, *_, node = build(record).spans
    spans = [one for one in build(record).spans if "agentrt.cost.amount" in one.attributes]
    assert {one.attributes["agentrt.cost.amount"] for one in spans} == {float(cost)}
    assert len(spans) == 2, "the run and its generation"
    assert root.attributes["agentrt.cost.currency"] == "USD"
    assert node is not None


def test_without_prices_there_is_no_cost(bench: Any) -> None:
    rig = rig_of(bench, prices=None)
    assert rig.run(ask_once) is None
    told = summary(record_of(rig))["usage"]
    assert (told["cost"], told["currency"]) == (None, None)
    assert "cost" not in latency_line(record_of(rig))


def test_answers_that_failed_their_check_are_paid_and_shown(bench: Any) -> None:
    two = json_schema({"type": "array", "contains": {"const": "Po"}, "minItems": 2}, check=True)

    @program
    async def rivers() -> Any:
        return await QUESTION.generate(two)

    rig = rig_of(bench, ['["Nile","Ob"]', '["Nile","Po"]'])
    rig.run(rivers)
    used = usage(record_of(rig))
    assert used.output_tokens == 2 * len('["Nile","Po"]')
    wasted = len('["Nile","Ob"]') * PRICES.output_pico
    assert used.discarded_cost_pico > wasted, "the prompt was paid, too"
    tokens_pico = PRICES.tokens_pico(used.input_tokens, 0, used.output_tokens)
    assert used.cost_pico == tokens_pico > used.discarded_cost_pico


@program
async def shared(leaves_s: float) -> str:
    first = QUESTION.generate(name="a", deadline=leaves_s)
    second = QUESTION.generate(name="b")
    answer = await second
    try:
        await first
    except Exception:
        return answer
    return answer


@pytest.mark.parametrize("leaves_s", [60.0, 0.35])
def test_a_shared_request_is_paid_once_also_if_its_first_node_leaves(
    bench: Any, leaves_s: float
) -> None:
    rig = rig_of(bench)
    assert rig.run(shared, leaves_s) == ANSWER
    assert len(rig.backend.seen.requests) == 1
    one, other = [e.ledger for e in rig.recorder.of(NodeFinished) if e.ledger is not None]
    paid = one if one.cost_pico else other
    assert one.cost_pico + other.cost_pico == paid.cost_pico
    assert paid.cost_pico >= len(ANSWER) * PRICES.output_pico
    assert one.currency == other.currency == "USD"


def test_a_cancelled_generation_costs_what_it_has_produced(bench: Any) -> None:
    @program
    async def impatient() -> str:
        gen = QUESTION.generate(deadline=0.45)
        try:
            return await gen
        except Exception as error:
            return type(error).__name__

    rig = rig_of(bench)
    assert rig.run(impatient) in ("DeadlineExceeded", NodeCancelled.__name__)
    used = usage(record_of(rig))
    assert 0 < used.output_tokens < len(ANSWER)
    assert used.cost_pico == PRICES.tokens_pico(used.input_tokens, 0, used.output_tokens)


def test_an_engine_of_ones_own_costs_its_time(bench: Any) -> None:
    prices = Prices.of(device_second="0.5")
    rig = rig_of(bench, prices=prices)
    rig.run(ask_once)
    (ended,) = [e.ledger for e in rig.recorder.of(NodeFinished) if e.ledger is not None]
    assert ended.cost_pico == prices.device_pico(ended.prefill_s + ended.decode_s) > 0


def test_tenants_without_an_account_of_their_own_are_merged() -> None:
    from agentrt.protocol.step_output import Ledger
    from agentrt.runtime.tenant_usage import TenantUsages

    usages = TenantUsages(max_tenants=2)
    for tenant in ("a", "b", "a", "c"):
        usages.charge(tenant, Ledger(output_tokens=1, cost_pico=5, currency="USD"))
    assert sorted(usages) == ["a", "c"]
    assert usages.merged.cost_pico == 5
    assert sum(one.cost_pico for one in usages.values()) == 15
