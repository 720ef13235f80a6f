"""The transcript in a report: what was said stays text, once, and within bounds."""

from dataclasses import replace

from agentrt.analysis import RunRecord
from agentrt.analysis.report.run_report import run_report
from agentrt.analysis.report.transcript_view import (
    MAX_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    MAX_TURNS,
    transcript_section,
    unread_section,
)
from agentrt.analysis.transcript import (
    SCHEMA,
    Transcript,
    TranscriptAttempt,
    TranscriptEnd,
    TranscriptError,
    TranscriptMessage,
    TranscriptNode,
    TranscriptPart,
    TranscriptPrompt,
    TranscriptRun,
)
from tests.oracles.pages import Element, faults, page_of
from tests.oracles.random_runs import play
from tests.oracles.statements import Work

RUN = TranscriptRun(SCHEMA, "00000000000000a1", "root")
EVIL = "</pre><script>alert('x')</script>\u202e &amp; \"'"
ROOT = TranscriptNode("root", 0, "program", "root", result="done", arguments='{"n":1}')


def text(content: str, node: str = "") -> TranscriptPart:
    return TranscriptPart("text", content, node=node)


def prompt(number: int, *contents: str, after: int | None = None) -> TranscriptPrompt:
    messages = tuple(TranscriptMessage("user", (text(one),)) for one in contents)
    return TranscriptPrompt(number, after, messages)


def answered(name: str, number: int, content: str, at: int | None = None) -> TranscriptNode:
    answer = TranscriptMessage("assistant", (text(content),))
    return TranscriptNode(
        f"root/{name}", number, "generate", name, "root", prompt=at, answer=answer, model="tiny"
    )


def shown(transcript: Transcript) -> Element:
    record = RunRecord()
    record.on_events(play((Work("generate", decode_s=0.1),)))
    page = page_of(run_report(record, [transcript_section(transcript)]))
    assert faults(page) == []
    assert [link.text() for link in page.every("nav")[0].every("a")][-1] == "Transcript"
    return page.named("transcript")


def turns(transcript: Transcript) -> list[str]:
    return [one.text() for one in shown(transcript).every("details")]


def test_prompts_answers_and_results_are_shown_node_by_node() -> None:
    plan = answered("plan#0", 1, "think of a number", at=0)
    tool = TranscriptNode(
        "root/look#0",
        2,
        "tool",
        "look",
        "root",
        arguments='{"at":3}',
        result="seven",
        ended_ms=250.0,
    )
    found = turns(Transcript(RUN, {0: prompt(0, "Which?")}, (ROOT, plan, tool)))
    assert found == [
        'root program, 0 ms done arguments {"n":1} result done',
        "plan#0 generate by tiny, 0 ms think of a number user Which? answer think of a number",
        'look#0 tool, 250 ms seven arguments {"at":3} result seven',
    ]


def test_what_prompts_share_is_shown_once() -> None:
    prompts = {0: prompt(0, "Long story."), 1: prompt(1, "Go on.", after=0)}
    nodes = (answered("a#0", 1, "one", at=0), answered("b#0", 2, "two", at=1))
    found = turns(Transcript(RUN, prompts, (ROOT, *nodes)))
    assert "user Long story." in found[1]
    assert "Long story." not in found[2]
    assert "begins as in a#0 user Go on. answer two" in found[2]


def test_a_value_that_was_shown_is_named() -> None:
    long = "word " * 60
    tool = TranscriptNode("root/look#0", 1, "tool", "look", "root", result=long)
    given = TranscriptPrompt(0, None, (TranscriptMessage("user", (text(long, "root/look#0"),)),))
    found = turns(Transcript(RUN, {0: given}, (ROOT, tool, answered("a#0", 2, "ok", at=0))))
    assert "[all of it: look#0]" in found[2]
    assert found[2].count("word") < 20


def test_calls_failures_and_attempts_are_told() -> None:
    call = TranscriptPart("tool_call", id="c1", name="look", arguments={"at": 3})
    answer = TranscriptMessage("assistant", (TranscriptPart("reasoning", "hm"), call))
    plan = replace(answered("plan#0", 1, ""), answer=answer)
    failed = TranscriptNode(
        "root/look#0",
        2,
        "tool",
        "look",
        "root",
        outcome="failed",
        error=TranscriptError("ToolFailed", "gone"),
        attempts=(TranscriptAttempt("too early"),),
    )
    found = turns(Transcript(RUN, {}, (ROOT, plan, failed)))
    assert found[1].endswith('calls look reasoning hm call look {"at":3}')
    assert found[2] == "look#0 failed tool, 0 ms gone attempt 1 too early error ToolFailed: gone"


def test_tools_are_told_where_they_change_and_a_rejected_answer_once() -> None:
    nodes = [replace(answered(f"a#{n}", n + 1, "so"), tools=("look", "find")) for n in range(2)]
    attempts = (TranscriptAttempt("no number", "so"),)
    last = replace(answered("b#0", 3, "so"), outcome="failed", attempts=attempts)
    _, first, second, rejected = turns(Transcript(RUN, {}, (ROOT, *nodes, last)))
    assert "tools look, find answer so" in first
    assert "tools" not in second
    assert "attempt 1 so no number" in rejected
    assert "answer so" not in rejected


def test_what_was_said_stays_text() -> None:
    nodes = (replace(ROOT, result=EVIL, arguments=EVIL), answered("a#0", 1, EVIL, at=0))
    transcript = Transcript(RUN, {0: prompt(0, EVIL)}, nodes)
    assert "<script" not in transcript_section(transcript)
    assert shown(transcript).text().count("alert('x')") >= 5


def test_the_page_stays_of_bounded_size() -> None:
    many = tuple(answered(f"a#{n}", n + 1, f"answer {n}") for n in range(1000))
    section = shown(Transcript(RUN, {}, (ROOT, *many)))
    assert len(section.every("details")) == MAX_TURNS
    assert f"{1001 - MAX_TURNS} more nodes" in section.text()
    large = tuple(answered(f"a#{n}", n + 1, "x" * 100_000) for n in range(300))
    said = transcript_section(Transcript(RUN, {}, (ROOT, *large)))
    assert len(said) < MAX_CHARACTERS + 200_000
    assert f"{100_000 - MAX_TEXT_CHARACTERS:,} more characters" in said


def test_nodes_that_the_transcript_lacks_are_counted() -> None:
    end = TranscriptEnd("ok", 100.0, nodes=9, left_out=7)
    assert "7 more nodes" in shown(Transcript(RUN, {}, (ROOT,), end)).text()


def test_a_transcript_that_cannot_be_read_is_told() -> None:
    section = unread_section("line 3 <b>")
    assert page_of(section).text().endswith("cannot be read: line 3 <b>")
