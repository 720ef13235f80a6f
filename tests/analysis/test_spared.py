"""What the scheduler spared a run, from its events."""

from agentrt.analysis import RunRecord, latency_line, summary
from agentrt.base.ids import NodeId
from agentrt.protocol.events import Event, Scheduled
from tests.oracles.random_runs import play
from tests.oracles.statements import Work


def record_of(*said: tuple[str, dict[str, float]]) -> RunRecord:
    record = RunRecord()
    events: list[Event] = list(play((Work("generate", prefill_s=0.1, decode_s=0.2),)))
    record.on_events(events)
    node = next(node for node in record.leaves())
    for decision, terms in said:
        told = tuple(terms.items())
        event = Scheduled(record.run_id, NodeId(node.node_id), 0.0, decision, "why", terms=told)
        record.on_events([event])
    return record


def test_nothing_spared_is_nothing_told() -> None:
    record = record_of(("placed", {"place": 0.0}))
    assert set(summary(record)["spared"].values()) == {0, None}
    assert "joined" not in latency_line(record)
    assert "cached" not in latency_line(record)


def test_joined_and_called_ahead() -> None:
    record = record_of(
        ("joined", {"behind_s": 0.1}),
        ("speculated", {"probability": 0.9, "trials": 3.0}),
        ("speculated", {"probability": 0.8, "trials": 3.0}),
        ("speculated", {"saved_s": 1.5}),
        ("speculated", {"wasted_s": 0.25}),
        ("speculated", {"expected_tokens": 96.0, "probability": 0.9, "trials": 3.0}),
        ("speculated", {"used_tokens": 64.0, "wasted_tokens": 16.0}),
    )
    (node,) = record.leaves()
    assert node.ledger is not None
    assert summary(record)["spared"] == {
        "joined": 1,
        "joined_tokens": node.ledger.prompt_tokens + node.ledger.output_tokens,
        "cached_responses": 0,
        "cached_response_tokens": 0,
        "cached_response_cost": None,
        "ahead": 2,
        "taken": 1,
        "saved_ms": 1500.0,
        "wasted_ms": 250.0,
        "prompts_ahead": 1,
        "used_tokens": 64,
        "wasted_tokens": 16,
    }
    assert "| joined 1, ahead 1 of 2, wasted 0.25 s, prefilled ahead 64 tokens, wasted 16 |" in (
        latency_line(record)
    )
