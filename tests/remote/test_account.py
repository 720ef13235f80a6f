"""What servers tell of their time becomes a ledger whose parts sum to the time that passed."""

from types import SimpleNamespace
from typing import cast

import pytest

from agentrt.base.ids import NodeId, RunId
from agentrt.protocol.events import NodeFinished
from agentrt.protocol.step_output import Ledger
from agentrt.remote.answers.usage import RequestTimes, ledger
from agentrt.runtime.in_flight.ledgers import joined_ledger
from agentrt.scheduler import Estimates
from agentrt.scheduler.learning import learn_node
from agentrt.scheduler.runs.run import NodeState
from tests.remote.event_reading import EventReading

VLLM = {"queue_time_ms": 100.0, "time_to_first_token_ms": 300.0, "generation_time_ms": 500.0}
LLAMA = {"prompt_ms": 250.0, "predicted_ms": 650.0, "cache_n": 7}
USAGE = {"prompt_tokens": 20, "completion_tokens": 5}
CACHED = USAGE | {"prompt_tokens_details": {"cached_tokens": 16}}

ROWS = [
    ("vLLM", CACHED, VLLM, 10.2, "engine_reported", (11.1, 0.1, 0.3, 0.5), 16),
    ("llama.cpp", USAGE, LLAMA, 10.2, "engine_reported", (11.1, 0.0, 0.25, 0.65), 7),
    ("nothing told", USAGE, {}, 10.2, "inferred", (10.0, 0.0, 0.2, 1.8), 0),
    ("no text came", USAGE, VLLM, 0.0, "inferred", (10.0, 0.0, 2.0, 0.0), 0),
    ("more than passed", USAGE, {"prompt_ms": 1500, "predicted_ms": 1000}, 10.2, "engine_reported",
     (10.0, 0.0, 1.5, 0.5), 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("usage", "timings", "first_at_s", "source", "expected", "cached"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_parts_sum_to_what_passed(usage, timings, first_at_s, source, expected, cached):
    reading = EventReading()
    reading.feed_event({"usage": usage, "timings": timings})
    account = ledger(reading, RequestTimes(10.0, first_at_s, admitted_at_s=10.0), 12.0)
    told = (account.received_at_s, account.queue_s, account.prefill_s, account.decode_s)
    assert told == pytest.approx(expected)
    parts = account.queue_s + account.prefill_s + account.decode_s
    assert parts == pytest.approx(account.finished_at_s - account.received_at_s)
    assert (account.source, account.cached_tokens) == (source, cached)
    assert (account.prompt_tokens, account.output_tokens) == (20, 5)


def test_a_cut_stream_counts_its_chunks():
    reading = EventReading()
    for text in "abc":
        reading.feed_event({"choices": [{"delta": {"content": text}}]})
    assert ledger(reading, RequestTimes(1.0, 1.5), 2.0).output_tokens == 3


def test_time_before_the_server_is_queue():
    reading = EventReading()
    reading.feed_event({"usage": USAGE, "timings": VLLM})
    account = ledger(reading, RequestTimes(10.0, 14.2, admitted_at_s=13.0), 16.0)
    assert account.queue_s == pytest.approx(3.0 + 0.1), "ours and the server's"
    assert account.server_queue_s == pytest.approx(0.1)
    parts = account.queue_s + account.prefill_s + account.decode_s
    assert parts == pytest.approx(account.finished_at_s - account.received_at_s)


def test_a_request_that_was_never_sent_has_queued_only():
    account = ledger(EventReading(), RequestTimes(10.0), 12.0)
    assert (account.queue_s, account.prefill_s, account.decode_s) == (2.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("timings", "retried_tokens"),
    [({}, 0), (LLAMA, 0), (VLLM, 3)],
    ids=["a server that reports no times", "one without a queue's", "one attempt of several"],
)
def test_a_queue_that_is_not_known_is_none(timings, retried_tokens):
    reading = EventReading()
    reading.feed_event({"usage": USAGE, "timings": timings})
    times = RequestTimes(10.0, 14.2, retried_tokens=retried_tokens, admitted_at_s=13.0)
    account = ledger(reading, times, 16.0)
    assert account.queue_s == pytest.approx(3.0)
    assert account.server_queue_s == 0.0


def test_a_node_that_joins_late_has_the_end_of_the_queue():
    sent = Ledger(
        completed_at_s=10.0, finished_at_s=14.0, queue_s=2.0, decode_s=2.0, server_queue_s=0.75
    )
    assert joined_ledger(sent, 10.0).server_queue_s == 0.75
    assert joined_ledger(sent, 11.5).server_queue_s == 0.5


def test_estimates_learn_no_queue_as_service():
    reading = EventReading()
    reading.feed_event({"usage": USAGE, "timings": VLLM | {"queue_time_ms": 2500.0}})
    account = ledger(reading, RequestTimes(10.0, 12.9, admitted_at_s=10.0), 13.4)
    site = Estimates().site("program", "site")
    node = SimpleNamespace(estimates=site, kind="generate")
    learn_node(
        cast(NodeState, node),
        NodeFinished(RunId("0" * 16), NodeId("r/g"), "ok", 14.0, ledger=account),
    )
    assert site.histograms["busy_s"].p50 == pytest.approx(0.8, rel=0.1)
