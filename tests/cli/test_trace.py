"""`agentrt trace`: which runs there were, what their nodes took, and why one of them waited."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrt.analysis import RunRecord
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId, RunId, trace_id_of
from agentrt.cli.main import answer
from agentrt.cli.trace_files import trace_files
from agentrt.protocol.events import (
    Event,
    NodeDeclared,
    NodeFinished,
    RequestSent,
    Scheduled,
)
from agentrt.telemetry import RUNS_FOLDER, JaegerFile, build
from tests.oracles.random_runs import play
from tests.oracles.statements import CallStatement, Statement, WaitStatement, Work

RUNS = RunId("00a1"), RunId("00b2"), RunId("c3")
BODY: tuple[Statement, ...] = (
    Work("generate", queue_s=0.2, prefill_s=0.1, decode_s=0.4),
    WaitStatement(0),
    Work("tool", decode_s=0.5),
    Work("generate", deps=(1,), decode_s=0.3),
    WaitStatement(2),
)
TERMS = (
    ("queued_s", 0.2),
    ("place", 2.0),
    ("others_waiting", 7.0),
    ("passed_over_pages", 4.0),
    ("rest_s", 3.5),
    ("aged_s", 1.25),
    ("level", 11.0),
    ("new_term", 1.0),
)


def events_of(run_id: RunId) -> list[Event]:
    told: list[Event] = []
    for one in play(BODY, run_id=run_id):
        told.append(one)
        if isinstance(one, RequestSent):
            reason = "too little memory in 4 steps; before it: root/a#0 (aged_s 1), b of run b2"
            at_s = one.at_s + 0.2
            told.append(Scheduled(run_id, one.node_id, at_s, "placed", reason, "rwa", TERMS))
    return told


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where three runs left their traces, one a second; commands are given from there."""
    monkeypatch.chdir(tmp_path)
    for second, run_id in enumerate(RUNS):
        record = RunRecord()
        record.on_events(events_of(run_id))
        path = JaegerFile(RUNS_FOLDER).export([build(record)])
        path.rename(path.with_name(path.name.replace("T221320", f"T22132{second}")))
    (RUNS_FOLDER / "notes.json").write_text("{}")
    return tmp_path


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[str], list[str]]]:
    def ask(*words: str) -> tuple[int, list[str], list[str]]:
        code = answer(["trace", *words])
        told = capsys.readouterr()
        return code, told.out.splitlines(), told.err.splitlines()

    return ask


Say = Callable[..., tuple[int, list[str], list[str]]]


def test_runs_are_listed_newest_first(folder: Path, say: Say) -> None:
    code, out, _ = say("ls")
    assert code == 0
    assert [line.split()[0] for line in out] == ["run", "c3", "00b2", "00a1"]
    trace_id = trace_files(RUNS_FOLDER)[0].trace_id
    assert out[1].split()[1:] == [trace_id[:7], "2023-11-14", "22:13:22", "1500.0", "4", "root"]
    assert say("show", trace_id[:7]) == say("show", "c3")
    assert say("ls", "--most", "1")[1][1:] == [out[1], "and 2 more"]


def test_the_name_of_the_list_before_still_works(folder: Path, say: Say) -> None:
    assert say("list") == say("ls")
    assert not [line for line in say("--help")[1] if line.strip().startswith("list ")]


def test_where_nothing_ran_there_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    monkeypatch.chdir(tmp_path)
    assert say("ls") == (0, ["There are no traces in traces/runs"], [])
    code, _, err = say("show", "last")
    assert code == 2
    assert err[0] == "error: UsageError: there are no traces in traces/runs"
    assert "--folder" in err[2]


def test_a_run_is_drawn_as_a_tree(folder: Path, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = say("show", "last")
    assert code == 0
    assert [line[:45].rstrip() for line in out] == [
        "                        0 to 1.50 s",
        "root        ok          ─────────────────────",
        "├ generate0 ok        * ···▒███████",
        "├ tool1     ok        *           ■■■■■■■■",
        "└ generate2 ok        *                  ████",
        "· queue  ▒ prefill  █ decode  ■ tool  * criti",
    ]


def test_children_stand_under_their_parent(tmp_path: Path, say: Say) -> None:
    body = (
        CallStatement((Work("tool", decode_s=0.1), Work("tool", decode_s=0.1))),
        Work("tool", decode_s=0.1),
    )
    record = RunRecord()
    record.on_events(play(body))
    path = JaegerFile(tmp_path).export([build(record)])
    _, out, _ = say("show", str(path))
    assert [line.split("ok")[0].split()[-1] for line in out[1:-1]] == [
        "root", "sub0", "tool0", "tool1", "tool3"
    ]  # fmt: skip
    _, rows, _ = say("show", str(path), "--waits")
    assert [row.split()[0] for row in rows[1:-1]] == ["root", "sub0", "tool0", "tool1", "tool3"]


def test_why_a_node_failed_stands_below_it(tmp_path: Path, say: Say) -> None:
    events = [
        replace(
            one, outcome="failed", error=ErrorRecord("ToolFailed", "no funds", holds_content=False)
        )
        if isinstance(one, NodeFinished) and "tool" in one.node_id
        else one
        for one in play((Work("tool", decode_s=0.1),))
    ]
    record = RunRecord()
    record.on_events(events)
    path = JaegerFile(tmp_path).export([build(record)])
    _, out, _ = say("show", str(path))
    at = next(at for at, line in enumerate(out) if "tool0" in line)
    assert out[at].split()[2] == "failed"
    assert out[at + 1].strip() == "failed: no funds"


def test_the_waits_of_the_nodes_of_a_run(folder: Path, say: Say) -> None:
    code, out, _ = say("show", "last", "--waits")
    assert code == 0
    assert out[0].split() == [
        "node", "kind", "start", "ms", "took", "ms", "inputs", "gate", "queue", "grammar"
    ]  # fmt: skip
    rows = {line.split()[0]: line.split()[1:] for line in out[1:-1]}
    assert rows["root"] == ["program", "0.0", "1500.0", "0.0", "0.0", "0.0", "0.0"]
    assert rows["generate0"] == ["generate", "0.0", "700.0", "0.0", "0.0", "200.0", "0.0", "*"]
    assert rows["generate2"][1:4] == ["1200.0", "300.0", "500.0"]


def test_why_a_node_waited(folder: Path, say: Say) -> None:
    code, out, _ = say("show", "last", "--why", "generate0")
    assert code == 0
    text = "\n".join(out)
    assert out[0].startswith("root/generate0: generate at ")
    assert "declared 0.0 ms after the run began, over at 700.0, on the critical path" in out[1]
    assert "     200.0 ms  queue    of 4 steps too little memory in 4 (200.0 ms)" in out
    assert "     400.0 ms  decode" in text
    at = out.index("  placed by the policy rwa, 200.0 ms after the run began")
    assert out[at + 1 :] == [
        "    after 200.0 ms in the queue: 2 served before it in that step, 7 went on waiting",
        "    too little memory in 4 steps",
        "    rest_s                    3.5  service that its run still needs, as learned",
        "    aged_s                   1.25  the service to go by, made less by waiting: the "
        "smallest goes first",
        "    level                      11  power of two of that: within one the run that began "
        "first goes first",
        "    new_term                    1",
        "    placed while it waited:",
        "      root/a#0 (aged_s 1)",
        "      b of run b2",
    ]
    _, out, _ = say("show", "last", "--why", "root/generate2")
    assert out[2].split(maxsplit=3)[:3] == ["500.0", "ms", "inputs"]
    assert "the hole in its prompt was tool root/tool1, which took 500.0 ms" in out[2]


def test_why_a_run_was_let_in(tmp_path: Path, say: Say) -> None:
    events = events_of(RUNS[0])
    at = next(at for at, one in enumerate(events) if isinstance(one, RequestSent))
    sent = events[at]
    assert isinstance(sent, RequestSent)
    terms = (("held_s", 0.5), ("peak_tokens", 1400.0), ("entry_tokens", 500.0))
    reason = "it fits, its branches in waves"
    said = Scheduled(sent.run_id, sent.node_id, sent.at_s, "admitted", reason, "", terms)
    record = RunRecord()
    record.on_events([*events[:at], said, *events[at:]])
    path = JaegerFile(tmp_path).export([build(record)])
    code, out, _ = say("show", str(path), "--why", "generate0")
    assert code == 0
    at = out.index(f"    {reason}")
    assert out[at + 1 : at + 4] == [
        "    held_s                    0.5  how long it has waited at the gate",
        "    peak_tokens              1400  of KV memory that its run is expected to need at once",
        "    entry_tokens              500  of that, what is set aside when its run is let in",
    ]


def test_a_run_is_named_by_file_or_by_the_start_of_an_id(folder: Path, say: Say) -> None:
    whole = say("show", "last")[1]
    (path,) = RUNS_FOLDER.glob(f"*{trace_id_of(RUNS[2])}.json")
    for name in (str(path), "c3", trace_id_of(RUNS[2]), trace_id_of(RUNS[2])[:9]):
        assert say("show", name)[1] == whole
    elsewhere = folder / "elsewhere"
    shutil.copytree(RUNS_FOLDER, elsewhere)
    shutil.rmtree(RUNS_FOLDER)
    assert say("show", "c3", "--folder", str(elsewhere))[1] == whole


WRONG: list[tuple[list[str], str, str]] = [
    (["show", "00"], "'00' is the beginning of 2 runs: 00b2 (root), 00a1 (root)", "more of it"),
    (["show", "00b3"], "no run in traces/runs begins with '00b3'", "did you mean 00b2?"),
    (["show", "xyz"], "no run in traces/runs begins with 'xyz'", "agentrt trace ls"),
    (["show", ""], "no run in traces/runs begins with ''", "agentrt trace ls"),
    (
        ["show", "traces/runs/notes.json"],
        "notes.json is no trace in Jaeger's JSON: no 'data'",
        "agentrt trace ls",
    ),
    (["show", "last", "--why", "generat0"], "no node 'generat0'", "did you mean generate0?"),
    (["show", "last", "--why", "%"], "run c3 has no node '%'", "show c3 lists its"),
    (["show", "last", "--why", "x", "--waits"], "--why and --waits are two reports", "give one"),
    (["ls", "--folder", "absent"], "there is no folder absent", "name one"),
    (["shw", "last"], "No such command 'shw'", "show"),
]


@pytest.mark.parametrize(("words", "what", "hint"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_what_cannot_be_meant_is_said(
    folder: Path, say: Say, words: list[str], what: str, hint: str
) -> None:
    code, out, err = say(*words)
    assert (code, out) == (2, [])
    assert what in err[0]
    assert hint in err[2]


def test_a_name_that_several_nodes_have_is_not_guessed(folder: Path, say: Say) -> None:
    events: list[Any] = []
    for one in events_of(RUNS[0]):
        if isinstance(one, NodeDeclared) and one.kind == "generate":
            one.name = "same"  # type: ignore[misc]
        events.append(one)
    record = RunRecord()
    record.on_events(events)
    path = JaegerFile(folder / "same").export([build(record)])
    code, out, err = say("show", str(path), "--why", "same")
    assert code == 2
    assert "'same' is 2 nodes" in err[0]
    assert "--why same:1 to same:2" in err[2]
    assert [line.split()[:3] for line in out[1:3]] == [
        ["same:1", "root/generate0", "made_up.py:1"],
        ["same:2", "root/generate2", "made_up.py:1"],
    ]
    assert [line.split()[3:] for line in out[1:3]] == [
        ["0.0", "700.0", "*"],
        ["1200.0", "300.0", "*"],
    ]
    for number, node in enumerate(("root/generate0", "root/generate2"), start=1):
        code, out, _ = say("show", str(path), "--why", f"same:{number}")
        assert (code, out[0].partition(":")[0]) == (0, node)
    code, out, err = say("show", str(path), "--why", "same:3")
    assert (code, out) == (2, [])
    assert "'same' is 2 nodes, and 3 is none of them" in err[0]
    assert "from 1 to 2" in err[2]


def test_a_node_is_named_by_the_line_that_made_it(folder: Path, say: Say) -> None:
    events: list[Any] = []
    for at, one in enumerate(events_of(RUNS[0])):
        if isinstance(one, NodeDeclared):
            one.site = f"app/made_up.py:{at}"  # type: ignore[misc]
        events.append(one)
    declared = [one for one in events if isinstance(one, NodeDeclared)]
    record = RunRecord()
    record.on_events(events)
    path = JaegerFile(folder / "sites").export([build(record)])
    for one in declared:
        for site in (one.site, one.site.removeprefix("app/"), f"{one.site}:1"):
            code, out, _ = say("show", str(path), "--why", site)
            assert (code, out[0].partition(":")[0]) == (0, one.node_id)
    code, _, err = say("show", str(path), "--why", "made_up.py:999")
    assert code == 2
    assert "did you mean app/made_up.py:" in err[2]


@pytest.mark.parametrize(
    ("policy", "why"),
    [("oracle", "is for replays"), ("srpt", "is no policy"), ("", "is no policy")],
)
def test_a_policy_that_cannot_serve_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], policy: str, why: str
) -> None:
    (folder / "job.py").write_text(
        "from agentrt import program\n@program\nasync def job() -> int:\n    return 1\n"
    )
    assert answer(["run", "--policy", policy, "job.py"]) == 2
    err = capsys.readouterr().err
    assert f"--policy {policy!r} {why}" in err
    assert "give rwa, plas, lpm or fcfs" in err


@pytest.mark.slow
def test_a_real_run_tells_why(agentrt: Any, program: Any, tmp_path: Path) -> None:
    program(
        "from agentrt import chat, gather, program\n"
        "@program\n"
        "async def job(x: int) -> str:\n"
        "    base = chat(system='Say something.').user(f'Of {x}.')\n"
        "    asked = [base.user(str(at)).generate(str, max_tokens=5) for at in range(3)]\n"
        "    return ' '.join(await gather(*asked))\n"
    )
    told = agentrt("run", "job.py", "--x", "1", "--policy", "plas", "--json")
    assert told.code == 0, told.err
    run_id = json.loads(told.out)["run_id"]
    shown = agentrt("trace", "show", run_id[:6], "--why", "str#1")
    assert shown.code == 0, shown.err
    assert "placed by the policy plas" in shown.out
    assert "service that its run has had" in shown.out
    assert NodeId("job#0/str#1") in shown.out
