"""Requests of all kinds at once, with holes and cancellations, and how outputs are compared."""

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import HoleFill

STEM = [(13 * at) % 249 for at in range(60)]
SPECS = (
    None,
    None,
    None,
    ConstraintSpec("regex", "[ab]{3,9}c*"),
    ConstraintSpec("json", '{"type":"array","items":{"type":"boolean"},"maxItems":4}'),
)
SMALL_STEPS: dict[str, Any] = {
    "page_tokens": 8,
    "prefill_chunk_tokens": 16,
    "step_tokens": 40,
    "eos_bias": -0.5,
}
"""Sizes at which prompts come in chunks and few rows share a step."""

FREE = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
request = st.fixed_dictionaries(
    {
        "at": st.integers(0, 20),
        "prompt": st.tuples(st.integers(0, 60), st.lists(st.integers(0, 250), max_size=5)).map(
            lambda parts: [*STEM[: parts[0]], *parts[1], 7]
        ),
        "constraint": st.sampled_from(SPECS),
        "on_limit": st.sampled_from(["raise", "close"]),
        "max_tokens": st.integers(1, 30),
        "temperature": st.sampled_from([0.0, 0.8]),
        "top_k": st.sampled_from([0, 0, 40]),
        "top_p": st.sampled_from([1.0, 0.9]),
        "repetition_penalty": st.sampled_from([1.0, 1.0, 1.3]),
        "frequency_penalty": st.sampled_from([0.0, 0.0, 0.5]),
        "logprobs": st.sampled_from([0, 0, 2]),
        "stop": st.sampled_from([(), (), ("a",), ("bb", "c")]),
        "hole": st.booleans(),
        "cancel": st.sampled_from([None, None, None, 2, 9]),
    }
)
OWN = ("at", "prompt", "hole", "cancel")


def serve(core, engine, requests, copies=1, number=0):
    """Submit each at its step, as often as asked; fill holes and cancel some steps later."""
    served = engine.Served()
    for step in range(35):
        for at, one in enumerate(requests):
            how = {key: one[key] for key in one if key not in OWN}
            half = len(one["prompt"]) // 2 if one["hole"] else len(one["prompt"])
            for copy in range(copies):
                name = number + at * copies + copy
                if step == one["at"]:
                    known = one["prompt"][:half]
                    core.submit(
                        engine.request(name, known, complete=not one["hole"], seed=at, **how)
                    )
                if one["hole"] and step == one["at"] + 3:
                    rest = HoleFill(tuple(one["prompt"][half:]), complete=True)
                    core.fill_hole(RequestId(name), rest)
                if one["cancel"] is not None and step == one["at"] + one["cancel"]:
                    core.cancel(RequestId(name), "test")
        engine.drain(core, served, most_steps=1)
    return engine.drain(core, served)


def compare(found, name, expected, at):
    """The same output; of a cancelled one, what there is of it."""
    ids, wanted = found.ids(name), expected.ids(at)
    if "cancelled" in (found.ends[name].reason, expected.ends[at].reason):
        shared = min(len(ids), len(wanted))
        assert ids[:shared] == wanted[:shared]
        return
    assert ids == wanted
    assert found.text(name) == expected.text(at)
    assert found.logprobs(name) == expected.logprobs(at)
    end, other = found.ends[name], expected.ends[at]
    assert (end.reason, end.closed_early) == (other.reason, other.closed_early)
    assert end.stopped_by == other.stopped_by
    assert end.ledger.output_tokens == other.ledger.output_tokens


def compare_twice(core, engine, requests, expected):
    """Two copies of each request give what it gave, and all again: pages and drafts are kept.

    Returns what each time gave, by the number of its first request.
    """
    found = {}
    for number in (0, 200):
        found[number] = serve(core, engine, requests, copies=2, number=number)
        for at in range(len(requests)):
            for copy in range(2):
                compare(found[number], number + 2 * at + copy, expected, at)
        holds_nothing(core)
    return found


def holds_nothing(core):
    pool, tree = core.allocator.pool, core.allocator.tree
    assert pool.owned_pages == 0
    assert pool.free_pages + pool.tree_pages == pool.total_pages
    assert tree.evictable_pages == pool.tree_pages
