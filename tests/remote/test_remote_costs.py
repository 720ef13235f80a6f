"""Costs of remote engines: attempts that gave nothing were paid, each by its engine's prices."""

import json
from contextlib import asynccontextmanager

import pytest

from agentrt import AnswerRefused, Prices, chat, program
from agentrt.base.clock import MonotonicClock
from agentrt.base.engines.remote_engine_config import Fallbacks, RemoteEngineConfig
from agentrt.program.prompt_size import likely_prompt_tokens, most_prompt_tokens
from agentrt.remote import RemoteEngines
from agentrt.runtime import Runtime
from tests.remote.hostile_server import DONE, content, event, head, serving

CHEAP = Prices.of(input=1, output=2)
DEAR = Prices.of(input=10, cached_input=1, output=30)
LIMITS = {"outage_s": 0, "attempts": 3, "pause_s": 0}
USAGE = {"prompt_tokens": 100, "completion_tokens": 7}
CACHED = USAGE | {"prompt_tokens_details": {"cached_tokens": 60}}


def answer(text="fine", finish="stop", usage=USAGE):
    told = {"choices": [], "usage": usage}
    return head() + event(content(text)) + event(told) + event(content("", finish)) + DONE


class Answers:
    """A server that gives its answers in turn, the last one again and again."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def __call__(self, path, body, writer):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        writer.write(answer)
        await writer.drain()


@program
async def job():
    gen = chat().user("Hi.").generate(max_tokens=8)
    try:
        await gen
    except AnswerRefused:
        return gen.meta.ledger
    return gen.meta.ledger


@asynccontextmanager
async def running(first, second=None, prices=CHEAP):
    async with serving(first) as url, serving(second or first) as other:
        there = RemoteEngineConfig(
            kind="openai", address=other, model="b", limits=LIMITS, prices=DEAR
        )
        engine = RemoteEngineConfig(
            kind="openai",
            address=url,
            model="a",
            limits=LIMITS,
            prices=prices,
            fallbacks=Fallbacks(refusal=(there,)) if second else None,
        )
        remotes = RemoteEngines(MonotonicClock(), {"AGENTRT_CAPABILITIES": "off"}, {})
        backend = remotes.backend(engine)
        async with Runtime({"default": (backend, None)}, clock=MonotonicClock()) as runtime:
            yield runtime


def ledger_of(portal, *servers, **given):
    async def main():
        async with running(*servers, **given) as runtime:
            return await runtime.run(job)

    return portal.call(main)


def test_cached_tokens_have_their_own_price(portal):
    account = ledger_of(portal, Answers(answer(usage=CACHED)), prices=DEAR)
    assert account.cost_pico == 40 * 10_000_000 + 60 * 1_000_000 + 7 * 30_000_000
    assert not account.is_estimated


def test_an_engine_that_refused_is_paid_by_its_own_prices(portal):
    refusing = Answers(answer(finish="content_filter"))
    account = ledger_of(portal, refusing, Answers(answer()))
    first, second = CHEAP.tokens_pico(100, 0, 7), DEAR.tokens_pico(100, 0, 7)
    assert (account.cost_pico, account.retried_cost_pico) == (first + second, first)
    assert (account.prompt_tokens, account.retried_prompt_tokens) == (100, 100)


def test_the_last_refusal_is_paid_too(portal):
    refusing = Answers(answer(finish="content_filter"))
    account = ledger_of(portal, refusing, refusing)
    assert account.cost_pico == CHEAP.tokens_pico(100, 0, 7) + DEAR.tokens_pico(100, 0, 7)


@pytest.mark.parametrize("reported", [True, False])
def test_an_answer_that_broke_off_is_paid(portal, reported):
    begun = head() + event(content("fi"))
    if reported:
        begun += event({"choices": [], "usage": USAGE})
    account = ledger_of(portal, Answers(begun, answer()))
    assert account.retried_tokens == (7 if reported else 1)
    prompt = json.dumps([{"role": "user", "content": "Hi."}], separators=(",", ":"))
    likely = likely_prompt_tokens(len(prompt))
    assert account.retried_prompt_tokens == (100 if reported else likely)
    lost = CHEAP.tokens_pico(account.retried_prompt_tokens, 0, account.retried_tokens)
    assert account.retried_cost_pico == lost
    assert account.cost_pico == CHEAP.tokens_pico(100, 0, 7) + lost
    assert account.is_estimated is not reported
    assert likely < most_prompt_tokens(len(prompt))


def test_a_request_that_was_refused_costs_nothing(portal):
    refusal = json.dumps({"error": {"message": "no such parameter: frequency"}}).encode()
    server = Answers(head("400 Bad Request") + refusal)

    async def main():
        async with running(server) as runtime:
            with pytest.raises(Exception, match="frequency"):
                await runtime.run(job)
            return runtime.tenants[""]

    account = portal.call(main)
    assert (account.cost_pico, account.currency, account.input_tokens) == (0, "USD", 0)
