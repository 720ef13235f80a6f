"""Tokens that a grammar forces are written without asking the model, and are the same tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import closes
import finance
import pytest

from agentrt import embedded, program
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig, SpeculateTokens

QUESTIONS = (
    "What was the volatility of MSFT from 2003 to 2006?",
    "Which returned more from 2005 to 2009, AAPL or IBM?",
    "What was the worst drawdown of GOOG from 2006 to 2009?",
)
LEAST_SHARE = 0.16
"""Of the tokens of reports, those that take no step of their own."""


@program(deadline=300.0)
async def report(question: str, temperature: float) -> Any:
    """The finance program, up to what is told of each token of its report."""
    table = closes.load(finance.STOCKS)
    ask = finance.ANALYST.user("Symbols: ", table.shown, "\nQuestion: ", question)
    tools = [one.bind(table=table) for one in finance.TOOLS]
    plan = ask.calls(*tools, max_tokens=400, name="plan")
    facts = [call.start() async for call in plan]
    written = plan.ctx.results(facts).user("Write the report.")
    output = finance.held(facts)
    gen = written.generate(
        output, max_tokens=900, on_limit="close", logprobs=1, temperature=temperature
    )
    await gen
    return gen.meta


def written(
    *,
    jump_forward: bool = True,
    speculate_tokens: SpeculateTokens = "off",
    temperature: float = 0.0,
) -> Any:
    config = EngineConfig(
        Path(embedded.path()),
        threads=1,
        jump_forward=jump_forward,
        dtype="float32",
        speculate_tokens=speculate_tokens,
    )

    async def run() -> Any:
        async with open_runtime(engine=config, place="thread") as runtime:
            return [await runtime.run(report, question, temperature) for question in QUESTIONS]

    return anyio.run(run)


def test_forced_tokens_are_what_the_model_writes() -> None:
    forced_tokens = output_tokens = 0
    for jumped, asked in zip(written(jump_forward=True), written(jump_forward=False), strict=True):
        said = [one.token_id for one in jumped.logprobs]
        assert said == [one.token_id for one in asked.logprobs]
        assert not any(one.forced for one in asked.logprobs)
        assert asked.ledger.forced_tokens == 0
        forced = [one for one in jumped.logprobs if one.forced]
        assert len(forced) >= 5
        assert all(one.logprob == 0.0 and not one.top for one in forced)
        assert all(one.top for one in jumped.logprobs if not one.forced)
        assert jumped.ledger.forced_tokens >= len(forced)
        assert jumped.ledger.steps < asked.ledger.steps - len(forced)
        forced_tokens += jumped.ledger.forced_tokens
        output_tokens += len(said)
    assert forced_tokens >= LEAST_SHARE * output_tokens


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_drafts_change_no_token_of_a_report(temperature: float) -> None:
    """They are of what the same node wrote before, and of the facts in the prompt."""
    plain = written(temperature=temperature)
    drafted = written(speculate_tokens=7, temperature=temperature)
    for alone, along in zip(plain, drafted, strict=True):
        assert [one.token_id for one in along.logprobs] == [one.token_id for one in alone.logprobs]
    last = drafted[-1].ledger
    assert sum(one.accepted_tokens for one in last.drafts if one.source != "grammar") >= 5
    assert last.steps < 0.8 * plain[-1].ledger.steps
