"""The tree of prompts: who continued whom, what was reused, and why a prefix was lost."""

from dataclasses import replace

from agentrt.analysis import RunRecord
from agentrt.analysis.report.prefix_tree import (
    CONTINUES,
    MAX_DEPTH,
    PromptBranch,
    PromptTree,
    prefix_tree,
)
from agentrt.base.ids import NodeId, RunId
from agentrt.protocol.events import Event, NodeDeclared, PrefixLost
from tests.oracles.random_runs import play
from tests.oracles.statements import Work

RUN_ID = RunId("00000000000000a1")


def tree_of(*prompts: tuple[str, int | None], lost: tuple[int, str] | None = None) -> PromptTree:
    """The tree of generations, each with its name and the number of the one it continues."""
    told: list[Event] = []
    for one in play(tuple(Work("generate", decode_s=0.1) for _ in prompts)):
        if isinstance(one, NodeDeclared) and one.kind == "generate":
            name, before = prompts[int(one.node_id.removeprefix("root/generate"))]
            given = {} if before is None else {CONTINUES: f"root/generate{before}"}
            one = replace(one, name=name, attributes=dict(given))
        told.append(one)
    if lost is not None:
        told.insert(-2, PrefixLost(RUN_ID, NodeId("root/generate0"), *lost, 100.0))
    record = RunRecord()
    record.on_events(told)
    return prefix_tree(record)


def shape(branches: tuple[PromptBranch, ...]) -> list[object]:
    return [(one.name, one.count, one.turns, shape(one.branches)) for one in branches]


def test_answers_are_continued_below_their_generation() -> None:
    tree = tree_of(("plan", None), ("report", 0), ("check", 1), ("title", None))
    assert shape(tree.branches) == [
        ("plan", 1, 1, [("report", 1, 1, [("check", 1, 1, [])])]),
        ("title", 1, 1, []),
    ]
    assert tree.branches[0].prompt_tokens == 100
    assert tree.branches[0].cached_tokens == 60
    assert tree.branches[0].computed_tokens == 40


def test_siblings_of_a_call_site_share_a_branch() -> None:
    tree = tree_of(("plan", None), ("vote", 0), ("vote", 0), ("vote", 0))
    assert shape(tree.branches) == [("plan", 1, 1, [("vote", 3, 1, [])])]
    assert tree.branches[0].branches[0].prompt_tokens == 300


def test_turns_of_a_loop_share_a_branch() -> None:
    tree = tree_of(("turn", None), ("turn", 0), ("turn", 1), ("turn", 2), ("final", 3))
    assert shape(tree.branches) == [("turn", 4, 4, [("final", 1, 1, [])])]


def test_reasons_of_lost_prefixes_are_kept() -> None:
    tree = tree_of(("plan", None), lost=(30, "tools_changed"))
    assert tree.branches[0].lost == (("tools_changed", 30),)


def test_what_is_too_deep_or_too_much_is_counted() -> None:
    chain = tree_of(*((f"n{n}", n - 1 if n else None) for n in range(MAX_DEPTH + 5)))
    assert chain.left_out == 5
    wide = tree_of(*((f"n{n}", None) for n in range(100)))
    assert (len(wide.branches), wide.left_out) == (80, 20)


def test_an_answer_of_another_run_is_no_parent() -> None:
    tree = tree_of(("plan", 7))
    assert shape(tree.branches) == [("plan", 1, 1, [])]
