"""A tree as rows of text: they fit, and no node at work is lost."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from agentrt.analysis import RunRecord
from agentrt.analysis.stage import LABELS, Stage
from agentrt.base.errors import ErrorRecord
from agentrt.cli.run_tree.choice import rows_of
from agentrt.cli.run_tree.from_events import LiveRunTree
from agentrt.cli.run_tree.from_record import tree_of_record
from agentrt.cli.run_tree.glyphs import ASCII, COLOURS, UNICODE, Glyphs, glyphs_for
from agentrt.cli.run_tree.layout import View, painted, text_of, tree_lines, tree_text
from agentrt.cli.run_tree.node import GROUPS, RunTree, State, TreeNode, group_of
from agentrt.protocol.events import Event, NodeFinished
from tests.oracles.random_programs import random_body
from tests.oracles.random_runs import play
from tests.oracles.statements import WaitStatement, Work

NAMES = ["plan", "look_up_everything_there_is", "報告書", "a\x1b[2Jb", "x" * 60]
STATES: tuple[State, ...] = ("waiting", "held", "queue", "prefill", "decode", "ok", "failed")
OVER = ("ok", "failed", "cancelled")


def grown(rng: Random, most: int) -> tuple[RunTree, list[TreeNode]]:
    """A tree of any shape, and its nodes."""
    root = TreeNode("0", "root#0", "program", None, 0.0, state="running")
    tree, nodes = RunTree(root), [root]
    tree.currency = rng.choice(["", "USD"])
    for number in range(1, rng.randint(2, most)):
        programs = [one for one in nodes if one.kind == "program" and not one.has_ended]
        parent = rng.choice(programs[-3:] if rng.random() < 0.5 else programs)
        kind = "program" if rng.random() < 0.3 else rng.choice(["generate", "tool"])
        state = "running" if kind == "program" else rng.choice(STATES)
        name = f"{rng.choice(NAMES)}#{number}"
        node = TreeNode(str(number), name, kind, parent, rng.random() * 9, state=state)
        if state in OVER:
            node.ended_at_s = node.started_at_s + rng.random()
            node.stages = [Stage("decode", node.started_at_s, node.ended_at_s)]
            node.cost_pico = rng.randrange(10**13)
            node.why = "a\nreason " * 9
        node.tokens, node.prompt_tokens = rng.randrange(10**7), rng.randrange(10**6)
        tree.add(node)
        tree.account(node)
        nodes.append(node)
    return tree, nodes


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(20, 200), st.integers(2, 60))
def test_no_row_is_wider_or_further_down_than_the_terminal(
    rng: Random, width: int, most_rows: int
) -> None:
    tree, nodes = grown(rng, 60)
    notes = ("a note " * 40,) if most_rows > 8 else ()
    view = View(width, most_rows, 10.0, rng.choice([ASCII, UNICODE]), notes=notes)
    wanted = rng.sample(nodes, len(nodes))
    lines = tree_lines(tree, view, wanted, [one for one in nodes if not one.has_ended])
    assert len(lines) <= most_rows
    for line in lines:
        assert cell_len("".join(piece.text for piece in line)) <= width
        assert all(char.isprintable() for piece in line for char in piece.text)


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(2, 60))
def test_every_node_has_a_row_or_is_counted(rng: Random, most_rows: int) -> None:
    tree, nodes = grown(rng, 60)
    rows = rows_of(tree, rng.sample(nodes, len(nodes)), most_rows)
    assert len(rows) <= most_rows
    seen = dict.fromkeys(GROUPS, 0)
    for row in rows:
        if not row.is_count:
            seen[group_of(row.node.state)] += 1
        for group, number in (row.counted or {}).items():
            seen[group] += number
    assert seen == tree.root.counts.nodes
    for group in GROUPS:
        assert seen[group] == sum(group_of(one.state) == group for one in nodes)


def test_what_is_wanted_first_has_its_row_under_its_parents() -> None:
    tree, nodes = grown(Random(5), 200)
    deepest = max(nodes, key=lambda one: len(one.ancestors()))
    shown = [row.node for row in rows_of(tree, [deepest], len(deepest.ancestors()) * 2 + 2)]
    assert deepest in shown
    assert {one.key for one in deepest.ancestors()} <= {one.key for one in shown}


def test_rows_are_not_left_empty_while_nodes_are_hidden() -> None:
    tree, nodes = grown(Random(11), 120)
    rows = rows_of(tree, nodes, 30)
    assert 28 <= len(rows) <= 30


def events_of(*works: Work | WaitStatement) -> list[Event]:
    return play(works, start_s=0.0)


PLAN = (
    Work("generate", queue_s=0.1, prefill_s=0.1, decode_s=0.2, items=1),
    WaitStatement(0, 0),
    Work("tool", plan=(0, 0), decode_s=0.4),
    Work("tool", plan=(0, 0), decode_s=0.1),
    Work("generate", deps=(1, 2), decode_s=0.2),
)


def test_a_plan_its_tools_and_a_report() -> None:
    record = RunRecord()
    record.on_events(events_of(*PLAN))
    tree = tree_of_record(record, with_savings=True)
    assert tree is not None
    assert tree_text(tree, 86, ASCII).splitlines() == [
        "                        0 to 1.00 s             time tokens tok/s    KV   saves cached",
        "root        ok          ____________________  1.00 s     40    40",
        "|-generate0 ok        * ..==####              400 ms     20    95   120  400 ms     60",
        "|-tool1     ok        *         tttttttt      400 ms                     300 ms",
        "|-tool2     ok                  tt            100 ms",
        "`-generate3 ok        *                 ####  200 ms     20    95   120  200 ms     60",
        ". queue  = prefill  # decode  t tool  * critical path",
    ]


@pytest.mark.parametrize(
    ("width", "head"),
    [
        (80, "0 to 1.00 s time tokens tok/s KV cached"),
        (62, "0 to 1.00 s time tokens tok/s KV"),
        (52, "0 to 1.00 s time tokens"),
        (40, "1.00 s time"),
        (24, ""),
    ],
)
def test_the_least_telling_columns_go_first(width: int, head: str) -> None:
    record = RunRecord()
    record.on_events(events_of(*PLAN))
    tree = tree_of_record(record)
    assert tree is not None
    lines = tree_text(tree, width, UNICODE).splitlines()
    assert " ".join(lines[0].split()) == head
    assert lines[2].startswith("├ generate0 ok")


def test_a_reason_stands_below_what_failed() -> None:
    root = TreeNode("0", "root#0", "program", None, 0.0, state="running")
    tree = RunTree(root)
    bad = TreeNode("1", "pay#0", "tool", root, 0.0, state="failed", ended_at_s=1.0, why="no\nfunds")
    tree.add(bad)
    lines = tree_text(tree, 60, ASCII).splitlines()
    assert lines[3] == "    failed: no funds"


def test_a_branch_that_has_ended_counts_in_its_own_row() -> None:
    live = LiveRunTree()
    live.on_events(events_of(*PLAN)[:-2])
    assert live.tree is not None
    root = live.tree.root
    (line,) = [row for row in rows_of(live.tree, (), 2) if row.is_count]
    assert line.counted is not None
    assert line.counted["ok"] == 4
    root.ended_at_s = 1.0
    (row,) = rows_of(live.tree, (), 2)
    assert row.counted is not None
    assert text_of(tree_lines(live.tree, View(60, 2))[0]).startswith("root +4")


def test_a_cell_shows_what_took_most_of_it() -> None:
    cells = painted([("queue", 0.0, 1.6), ("decode", 1.6, 4.0)], 0.0, 4.0, 4)
    assert cells == ["queue", "queue", "decode", "decode"]
    assert painted([("tool", 2.0, 2.0)], 0.0, 4.0, 4) == ["", "", "tool", ""]
    assert painted([("tool", 4.0, 4.0)], 0.0, 4.0, 2) == ["", "tool"]
    assert painted([("tool", 1.0, 1.0)], 1.0, 1.0, 2) == ["tool", ""]


def test_a_node_that_was_cut_off_has_no_saving() -> None:
    late = ErrorRecord("DeadlineExceeded", "passed its deadline")
    record = RunRecord()
    for one in events_of(*PLAN):
        if isinstance(one, NodeFinished) and one.node_id.endswith("tool1"):
            record.on_events([replace(one, outcome="failed", error=late)])
        else:
            record.on_events([one])
    tree = tree_of_record(record, with_savings=True)
    assert tree is not None
    saving = [one.name for one in tree.root.children if one.saving_s is not None]
    assert saving == ["generate0", "generate3"], "of the critical path, all but the tool"


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_bars_of_random_runs_have_their_width(rng: Random) -> None:
    record = RunRecord()
    record.on_events(play(random_body(rng)))
    tree = tree_of_record(record, with_savings=True)
    assert tree is not None
    width = rng.randint(60, 160)
    lines = tree_text(tree, width, ASCII).splitlines()
    assert len(lines) == len(record.nodes) + 2
    assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize("glyphs", [ASCII, UNICODE], ids=["ascii", "unicode"])
def test_each_kind_of_time_has_a_mark_and_a_colour(glyphs: Glyphs) -> None:
    assert set(glyphs.marks) == set(COLOURS) == set(LABELS)
    marks = [*glyphs.marks.values(), glyphs.program]
    assert len(set(marks)) == len(marks)
    assert {cell_len(one) for one in marks} == {1}
    guides = (glyphs.branch, glyphs.last, glyphs.through, glyphs.more)
    assert {cell_len(one) for one in guides} == {2}


def test_ascii_where_the_stream_has_no_unicode() -> None:
    assert glyphs_for("utf-8") is glyphs_for("UTF8") is UNICODE
    assert glyphs_for("ascii") is glyphs_for("latin-1") is glyphs_for(None) is ASCII
