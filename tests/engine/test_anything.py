"""Whatever is asked, in whatever order: every request ends once and no page is lost."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import HoleFill, PrefixHint, SchedulingInfo

STEM = [(13 * at) % 249 for at in range(60)]
SPECS = (
    None,
    None,
    ConstraintSpec("regex", "[ab]{3,9}c*"),
    ConstraintSpec("json", '{"type":"array","items":{"type":"boolean"},"maxItems":4}'),
    ConstraintSpec("grammar", "start: broken"),
)
prompt = st.tuples(st.integers(0, 60), st.lists(st.integers(0, 250), max_size=8)).map(
    lambda parts: STEM[: parts[0]] + parts[1]
)
submit = st.fixed_dictionaries(
    {
        "do": st.just("submit"),
        "prompt": prompt,
        "complete": st.booleans(),
        "constraint": st.sampled_from(SPECS),
        "on_limit": st.sampled_from(["raise", "close"]),
        "max_tokens": st.integers(1, 25),
        "temperature": st.sampled_from([0.0, 1.0]),
        "demanded": st.booleans(),
        "deadline_at_s": st.sampled_from([None, None, 0.01, 0.03]),
        "stop": st.sampled_from([(), (), ("a",), ("bb", "c")]),
    }
)
step = st.fixed_dictionaries({"do": st.just("step"), "count": st.integers(1, 6)})
touch = st.fixed_dictionaries(
    {
        "do": st.sampled_from(["cancel", "fill", "finish", "demand", "drop", "keep"]),
        "which": st.integers(0, 9),
        "more": prompt,
    }
)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    actions=st.lists(st.one_of(submit, submit, step, touch), min_size=3, max_size=25),
    kv_pages=st.sampled_from([9, 14, 60]),
    chunk=st.sampled_from([5, 64]),
    slots=st.sampled_from([1, 2, 8]),
)
def test_every_request_ends_once(actions, kv_pages, chunk, slots, model_dir, engine):
    core = engine.core(
        model_dir("llama"),
        kv_pages=kv_pages,
        page_tokens=8,
        prefill_chunk_tokens=chunk,
        step_tokens=48,
        max_running=slots,
    )
    served = engine.Served()
    pending: dict[int, bool] = {}
    for action in actions:
        _act(core, engine, served, pending, dict(action))
    engine.drain(core, served)
    for number in [one for one, complete in pending.items() if not complete]:
        core.fill_hole(RequestId(number), HoleFill((7,), complete=True))
    engine.drain(core, served)
    core.close()
    assert served.ends.keys() == pending.keys()
    pool, tree = core.allocator.pool, core.allocator.tree
    assert pool.owned_pages == 0
    assert pool.free_pages + pool.tree_pages == kv_pages
    assert tree.evictable_pages == pool.tree_pages
    assert core.allocator.free_slots == slots
    for number, end in served.ends.items():
        assert end.ledger.output_tokens == len(served.ids(number))
        assert end.reason != "failed" or end.error.type in {
            "ConstraintError",
            "OutOfPages",
            "RequestRejected",
        }


def _act(core, engine, served, pending, action):
    do = action.pop("do")
    if do == "submit":
        number = len(pending)
        pending[number] = action["complete"]
        core.submit(engine.request(number, action.pop("prompt"), **action))
    elif do == "step":
        engine.drain(core, served, most_steps=action["count"])
    elif do in ("drop", "keep"):
        core.hint(PrefixHint(tuple(action["more"]), do))
    elif action["which"] in pending:
        number = RequestId(action["which"])
        if do == "cancel":
            core.cancel(number, "test")
        elif do == "demand":
            core.update((SchedulingInfo(number, demanded=True),))
        elif not pending[number]:
            pending[number] = do == "finish"
            core.fill_hole(number, HoleFill(tuple(action["more"]), complete=do == "finish"))
