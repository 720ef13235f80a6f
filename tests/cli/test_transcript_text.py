"""A transcript as a person reads it: 80 columns, colour on a terminal only, nothing said twice."""

import io
import json
from typing import Any

import pytest

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
from agentrt.cli.fitted_json import fitted_json
from agentrt.cli.transcript_text import write_transcript

LONG = "word " * 30
TABLE = json.dumps({"rows": [{"symbol": "AAPL", "value": 759.75, "period": "2000"}] * 2})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def text(content: str, **given: Any) -> TranscriptPart:
    return TranscriptPart("text", content, **given)


def message(role: Any, *parts: TranscriptPart) -> TranscriptMessage:
    return TranscriptMessage(role, parts)


def node(name: str, number: int, kind: Any = "generate", **given: Any) -> TranscriptNode:
    path = f"job#0/{name}#0" if number else "job#0"
    given = {"parent": "job#0" if number else "", "ended_ms": 12.5} | given
    return TranscriptNode(path, number, kind, name, **given)


def run_of(*nodes: TranscriptNode, prompts: Any = (), end: Any = None) -> Transcript:
    run = TranscriptRun(SCHEMA, "00a1", "job")
    end = end or TranscriptEnd("ok", 1500.0, nodes=len(nodes))
    return Transcript(run, {one.prompt: one for one in prompts}, nodes, end)


def shown(transcript: Transcript, max_lines: int | None = 30, to: Any = None) -> list[str]:
    stream = to or io.StringIO()
    write_transcript(transcript, stream, max_lines)
    return stream.getvalue().splitlines()


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


AGENT = run_of(
    node("job", 0, "program", arguments='{"n":3}', result="It is four times the size of Italy."),
    node(
        "plan",
        1,
        prompt=1,
        model="tiny",
        tools=("look", "find"),
        prompt_tokens=20,
        output_tokens=9,
        answer=message(
            "assistant",
            TranscriptPart("reasoning", "Hm."),
            text("I look."),
            TranscriptPart("tool_call", id="c", name="look", arguments={"at": "sea"}),
        ),
    ),
    node("look", 2, "tool", arguments='{"at":"sea"}', result=TABLE),
    node(
        "report",
        3,
        prompt=4,
        tools=("look", "find"),
        answer=message("assistant", text("It is four times the size of Italy.")),
    ),
    prompts=(
        TranscriptPrompt(0, None, (message("system", text("Be brief.")),)),
        TranscriptPrompt(1, 0, (message("user", text("How "), text("large?")),)),
        TranscriptPrompt(2, 1, answer_of="job#0/plan#0"),
        TranscriptPrompt(
            3,
            2,
            (
                message(
                    "tool",
                    TranscriptPart("tool_call_response", response=TABLE, node="job#0/look#0"),
                ),
            ),
        ),
        TranscriptPrompt(4, 3, (message("user", text("So?")),)),
    ),
)


def test_an_agent() -> None:
    assert shown(AGENT) == [
        "job, run 00a1: ok after 1.50 s",
        '  arguments    {"n":3}',
        "",
        "plan#0  generate by tiny, 20 tokens in, 9 out, 12.5 ms",
        "  tools        look, find",
        "  system       Be brief.",
        "  user         How large?",
        "  reasoning    Hm.",
        "  answer       I look.",
        '  calls        look {"at":"sea"}',
        "",
        "look#0  tool, 12.5 ms",
        '  arguments    {"at":"sea"}',
        "  result       {",
        '                 "rows": [',
        '                   {"symbol": "AAPL", "value": 759.75, "period": "2000"},',
        '                   {"symbol": "AAPL", "value": 759.75, "period": "2000"}',
        "                 ]",
        "               }",
        "",
        "report#0  generate, 12.5 ms",
        "  after        plan#0",
        '  tool         {"rows": [{"symbol": "AAPL", "value": 759.75, "period": "200...',
        "               [all of it: look#0]",
        "  user         So?",
        "  answer       It is four times the size of Italy.",
        "",
        "  result       It is four times the size of Italy.",
    ]


def test_what_broke() -> None:
    failed = TranscriptError("CheckFailed", "none of 2 answers is even")
    lines = shown(
        run_of(
            node("job", 0, "program", outcome="failed", error=failed),
            node(
                "even",
                1,
                outcome="failed",
                error=failed,
                attempts=(TranscriptAttempt("odd", "1"), TranscriptAttempt("odd", "3")),
                answer=message("assistant", text("3")),
            ),
            node("pay", 2, "tool", attempts=(TranscriptAttempt("OSError: busy"),), result="ok"),
            node("slow", 3, outcome="cancelled", reason="lost a race", finish_reason="length"),
            node("ask", 4, "ask", arguments="Go on?", result="true", cut_characters=70),
            end=TranscriptEnd("failed", 20.0, failed, nodes=9, left_out=4),
        )
    )
    assert lines == [
        "job, run 00a1: failed after 20.0 ms",
        "",
        "even#0  generate, 12.5 ms, failed",
        "  attempt 1    1",
        "  rejected     odd",
        "  attempt 2    3",
        "  rejected     odd",
        "  error        CheckFailed: none of 2 answers is even",
        "",
        "pay#0  tool, 12.5 ms",
        "  attempt 1    OSError: busy",
        "  result       ok",
        "",
        "slow#0  generate, 12.5 ms, stopped at its limit of tokens, cancelled (lost a",
        "race)",
        "",
        "ask#0  ask, 12.5 ms",
        "  question     Go on?",
        "  answer       true",
        "  cut          70 characters are not in the transcript",
        "",
        "  error        CheckFailed: none of 2 answers is even",
        "",
        "[cut here: the transcript was full, 4 more nodes are not in it]",
    ]


def test_forks_name_what_they_share() -> None:
    prompts = (
        TranscriptPrompt(0, None, (message("system", text("Be brief.")),)),
        TranscriptPrompt(1, 0, (message("user", text("One?")),)),
        TranscriptPrompt(2, 0, (message("user", text("Two?")),)),
        TranscriptPrompt(3, 1, answer_of="job#0/one#0"),
    )
    nodes = [node("one", 1, prompt=1), node("again", 2, prompt=1), node("two", 3, prompt=2)]
    lines = shown(run_of(*nodes, node("more", 4, prompt=3), prompts=prompts))
    assert [line for line in lines[1:] if not line.endswith("12.5 ms") and line] == [
        "  system       Be brief.",
        "  user         One?",
        "  prompt       as in one#0",
        "  begins       as in one#0",
        "  user         Two?",
        "  after        one#0",
    ]


def test_a_run_that_was_killed_says_so() -> None:
    killed = Transcript(TranscriptRun(SCHEMA, "00a1", "job"), {}, (node("look", 1, "tool"),), None)
    assert shown(killed)[0] == "job, run 00a1: no end: it is under way, or was killed"


def told(answer: str) -> Transcript:
    return run_of(node("say", 1, answer=message("assistant", text(answer))))


@pytest.mark.parametrize("answer", [LONG, "x" * 300, "我" * 100, TABLE * 3])
def test_no_line_is_longer_than_eighty_columns(answer: str) -> None:
    from rich.cells import cell_len

    lines = shown(told(answer), None)
    assert len(lines) > 4
    assert max(map(cell_len, lines)) <= 80
    said = "".join(line[15:] for line in lines[3:])
    assert said.replace(" ", "") == answer.replace(" ", "")


def test_long_texts_are_shortened_with_a_mark() -> None:
    answer = "\n".join(f"line {number}" for number in range(60))
    lines = shown(told(answer), 30)
    assert lines[-2:] == [
        "               line 29",
        "               ... 30 more lines; agentrt trace show RUN --text --full",
    ]
    assert shown(told(answer), None)[-1] == "               line 59"


def test_layout_of_code_is_kept() -> None:
    lines = shown(told("def f():\n    return 1\n\n\n\treturn"))
    assert [line[15:] for line in lines[3:]] == ["def f():", "    return 1", "", "", "    return"]


def test_a_terminal_gets_colour_but_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = told("\x1b[2J\x07 red \u202e\x9b1m [bold]x[/bold] :smile:")
    plain = "\\x1b[2J\\x07 red \\u202e\\x9b1m [bold]x[/bold] :smile:"
    assert shown(hostile)[-1] == f"  answer       {plain}"
    coloured = "\n".join(shown(hostile, to=Terminal()))
    assert "\x1b[36m  answer       \x1b[0m\x1b[32m" in coloured
    assert "\x1b[2J" not in coloured
    assert "\x9b" not in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in "\n".join(shown(hostile, to=Terminal()))


@pytest.mark.parametrize("given", ["plain", "[not json, but long enough to be laid out]", "{}"])
def test_what_is_no_json_stays_as_it_is(given: str) -> None:
    assert fitted_json(given, 10) == given


def test_json_means_the_same_when_laid_out() -> None:
    value = {"a": [1, [2, 3], {"b": "c" * 50}], "d": {}, "e": [[], "x" * 30, 4.5, None]}
    for width in (1, 20, 40, 80, 200):
        assert json.loads(fitted_json(json.dumps(value), width)) == value
