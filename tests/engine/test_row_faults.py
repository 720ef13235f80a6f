"""What one row breaks is that row's error: the others go on as if it had not been there."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import HoleFill

PROMPT = [7 * at % 250 for at in range(21)]
ROWS: tuple[dict[str, Any], ...] = (
    {"temperature": 1.0, "stop": ("zz",)},
    {"constraint": ConstraintSpec("regex", "[ab]{3,9}c*")},
    {"constraint": ConstraintSpec("regex", "[a-f]{9,30}"), "on_limit": "close"},
    {"temperature": 0.7, "top_p": 0.9, "presence_penalty": 0.5, "logprobs": 2},
    {"complete": False, "temperature": 1.0},
)
"""What each row of the batch asks for beside its prompt."""

CALLED = {
    "feed_ids": "detokenizer",
    "flush": "stops",
    "feed": "stops",
    "mask_state": "grammar",
    "accept_token": "grammar",
    "forced_tokens": "grammar",
    "must_stop": "grammar",
    "can_stop": "grammar",
    "can_close": "grammar",
    "must_close": "grammar",
}
"""Per-row work of a step, by the part of a sequence that does it."""


class Broken(RuntimeError):
    """A fault that a test put in."""


class Breaking:
    """A part of a sequence that breaks at one use of a name, and from then on."""

    def __init__(self, part: Any, name: str, uses: int) -> None:
        vars(self).update(part=part, name=name, uses=uses)

    def __getattr__(self, name: str) -> Any:
        if name == vars(self)["name"]:
            vars(self)["uses"] -= 1
            if vars(self)["uses"] < 0:
                raise Broken(name)
        return getattr(vars(self)["part"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["part"], name, value)


def play(
    core: Any,
    engine: Any,
    *,
    each_step: Callable[[Any], object] = lambda core: None,
    fill: tuple[int, ...] = (5, 6),
) -> Any:
    """All rows in one batch; the hole of the last is filled after some steps."""
    served = engine.Served()
    for row, asked in enumerate(ROWS):
        core.submit(engine.request(row, [*PROMPT, row], max_tokens=24, seed=row, **asked))
    for step in range(400):
        each_step(core)
        engine.drain(core, served, most_steps=1)
        if step == 3:
            core.fill_hole(RequestId(len(ROWS) - 1), HoleFill(fill, complete=True))
        if len(served.ends) == len(ROWS):
            break
    pool, tree = core.allocator.pool, core.allocator.tree
    assert (pool.owned_pages, tree.evictable_pages) == (0, pool.tree_pages)
    assert not core.has_work()
    core.close()
    return served


@pytest.fixture
def alone(tokenizer_dir: Path, engine: Any) -> Callable[..., None]:
    """Compares a disturbed run with an undisturbed one."""

    @cache
    def undisturbed(overlap: str) -> Any:
        return play(engine.hash_core(tokenizer_dir, overlap=overlap), engine)

    def check(faulty: int, overlap: str, **disturbed: Any) -> Any:
        core = engine.hash_core(tokenizer_dir, overlap=overlap)
        served, expected = play(core, engine, **disturbed), undisturbed(overlap)
        for row in set(range(len(ROWS))) - {faulty}:
            assert served.ids(row) == expected.ids(row)
            assert served.text(row) == expected.text(row)
            assert served.ends[row].reason == expected.ends[row].reason
        return served

    return check


@pytest.mark.parametrize("overlap", ["off", "on"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", 10**400),
        ("top_p", "most"),
        ("repetition_penalty", 10**400),
        ("presence_penalty", "much"),
    ],
    ids=["top_k", "top_p", "repetition_penalty", "presence_penalty"],
)
def test_sampling_parameters(alone: Any, name: str, value: object, overlap: str) -> None:
    """Such values are refused when they are written down: they are put in behind that."""

    def put_in(core: Any) -> None:
        if (sequence := core.scheduler.find(RequestId(0))) is not None:
            object.__setattr__(sequence.request.sampling, name, value)

    assert alone(0, overlap, each_step=put_in).ends[0].reason == "failed"


@pytest.mark.parametrize("overlap", ["off", "on"])
@given(data=st.data())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_part_at_any_use(alone: Any, overlap: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(CALLED)))
    part = CALLED[name]
    rows = (1, 2) if part == "grammar" else range(len(ROWS))
    faulty, uses = data.draw(st.sampled_from(rows)), data.draw(st.integers(0, 12))

    def put_in(core: Any) -> None:
        sequence = core.scheduler.find(RequestId(faulty))
        found = sequence and getattr(sequence, part)
        if found is not None and not isinstance(found, Breaking):
            setattr(sequence, part, Breaking(found, name, uses))

    served = alone(faulty, overlap, each_step=put_in)
    end = served.ends[faulty]
    if end.reason == "failed":
        assert end.error.message == name
    else:  # it ended before, or with the completion that was held
        assert end.error is None


@pytest.mark.parametrize("overlap", ["off", "on"])
def test_the_fill_of_a_hole(alone: Any, overlap: str) -> None:
    served = alone(4, overlap, fill=(5, -1))
    assert served.ends[4].error.type == "RequestRejected"


def test_an_update_that_scheduling_cannot_use(alone: Any) -> None:
    def update(core: Any) -> None:
        if (sequence := core.scheduler.find(RequestId(3))) is not None:
            core.update((replace(sequence.info, output_tokens=float("nan")),))

    assert alone(3, "off", each_step=update).ends[3].error.type == "UsageError"


def test_admission(alone: Any) -> None:
    """What a waiting sequence breaks while it is admitted."""

    def put_in(core: Any) -> None:
        if (sequence := core.scheduler.find(RequestId(3))) is not None:
            sequence.metrics = Breaking(sequence.metrics, "start_running", 0)

    assert alone(3, "off", each_step=put_in).ends[3].error.message == "start_running"
