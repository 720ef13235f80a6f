"""Which plans a search may end with, and counters of a server's metrics."""

import pytest

from agentrt.lab.arms.plan_search import PlanChange, PlanSearch
from agentrt.lab.arms.server_process import ServerPlan, counted

PLAN = ServerPlan("vllm", "2t", ("serve", "--eager", "--port", "{port}"), "m", {"temperature": 0})
QUICK = PlanChange("compiled", without=("--eager",))
WIDE = PlanChange("wide", ("--width", "8"))
WIDER = PlanChange("wider", ("--width", "16"))
FORMS = PlanChange("forms", body={"top_k": 1}, form_body={"regex": "{pattern}"})


def test_a_change_names_its_plan() -> None:
    plan = FORMS.on(WIDE.on(QUICK.on(PLAN)))
    assert plan.variant == "2t, compiled, wide, forms"
    assert plan.command == ("serve", "--port", "{port}", "--width", "8")
    assert plan.body == {"temperature": 0, "top_k": 1}
    assert plan.form_body == {"regex": "{pattern}"}
    assert PLAN.form_body == QUICK.on(PLAN).form_body == {}


def test_a_plan_that_was_kept_is_found_again() -> None:
    search = PlanSearch((PLAN,), ((QUICK,), (WIDE, WIDER), (FORMS,)))
    assert search.named("2t") == PLAN
    assert search.named("2t, wider, forms") == FORMS.on(WIDER.on(PLAN))
    assert search.named("2t, wide, wider") is None
    assert search.named("1t") is None


def test_drafts_are_tried_only_where_all_arms_may_have_them() -> None:
    drafts = PlanChange("drafts", ("--draft",), drafts=True)
    search = PlanSearch((PLAN,), ((drafts,), (WIDE, drafts), (FORMS,)))
    assert search.without_drafts() == PlanSearch((PLAN,), ((WIDE,), (FORMS,)))


METRICS = """# HELP steps of the engine
steps{engine="0",kind="a"} 2.0
steps{engine="1",kind="a"} 3.0
steps{engine="0",kind="b"} 5.0
steps_created{engine="0",kind="b"} 1.7e+09
plain 7
"""


@pytest.mark.parametrize(
    ("counter", "value"),
    [("steps", 10), ('steps{kind="a"}', 5), ('steps{kind="b",engine="0"}', 5), ("plain", 7)],
)
def test_a_counter_is_summed_over_labels_that_are_not_named(counter: str, value: int) -> None:
    assert counted(METRICS, counter) == value


@pytest.mark.parametrize("counter", ["step", 'steps{kind="c"}', "HELP"])
def test_a_counter_that_is_not_there_is_told(counter: str) -> None:
    with pytest.raises(KeyError):
        counted(METRICS, counter)
