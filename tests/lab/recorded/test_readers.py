"""Programs of recorded text: their graph is that of the shape, their text that of the record."""

import json
import re
from itertools import islice
from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.arms.wire import program_line
from agentrt.lab.recorded.codebook import Codebook
from agentrt.lab.recorded.finance_recording import row_of
from agentrt.lab.recorded.json_calls import json_calls
from agentrt.lab.recorded.program import RecordedProgram
from agentrt.lab.recorded.readers import RECORDS
from agentrt.lab.recorded.source import RecordSource
from agentrt.lab.recorded.speller import RecordedSpeller, RecordedTexts
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.trace import Arrival

DATA = Path(__file__).parent / "data"
WORDS = [f" {a}{b}{c}" for a in "abcdefghij" for b in "abcdefghij" for c in "abcdefghij"]


def read(shape: str, many: int) -> tuple[list[RecordedProgram], Codebook]:
    book = Codebook()
    source = RecordSource(shape, DATA, book, Scale())
    return list(islice(RECORDS[shape].read(source), many)), book


def unspelled(book: Codebook, units: tuple[int, ...]) -> str:
    return "".join(book.unit(number) for number in units)


@pytest.mark.parametrize("shape", sorted(RECORDS.keys() - {"react", "coding-agent"}))
def test_each_record_is_a_program_of_its_own_and_its_forms_hold_its_outputs(shape: str) -> None:
    programs, _ = read(shape, 2)
    texts = RecordedTexts()
    for one in programs:
        texts.add(one)
    assert len({one.trace.name for one in programs}) == len(programs) == 2
    first, other = (RecordedSpeller(WORDS, texts).salted(salt) for salt in ("one", "other"))
    for one in programs:
        line, again = (program_line(Arrival(0.0, one.trace), spell) for spell in (first, other))
        assert line["shape"] == shape
        for node, same in zip(line["nodes"], again["nodes"], strict=True):
            if node["kind"] == "call":
                assert same["kind"] == "call"
                assert len(node["output"].split()) == node["tokens"]
                assert node["output"] != same["output"]
                assert re.fullmatch(node.get("pattern", ".*"), node["output"])


def test_an_output_is_the_recorded_text() -> None:
    (first, _), book = read("extraction", 2)
    (written,) = first.outputs.values()
    answers = (DATA / "bfcl_parallel_answers.jsonl").read_text("utf-8").splitlines()
    calls = json.loads(unspelled(book, written.units))
    expected = [next(iter(one)) for one in json.loads(answers[0])["ground_truth"]]
    assert [call["name"] for call in calls] == expected
    assert 0 < sum(written.given) < len(written.units)


def test_questions_of_different_programs_differ_and_their_examples_are_shared() -> None:
    (first, second), _ = read("classification", 2)
    prompts = [{call.prompt for call in one.trace.calls()} for one in (first, second)]
    assert not prompts[0] & prompts[1]
    assert len({prompt[0] for one in prompts for prompt in one}) == 1
    assert all(len(one.trace.calls()) >= 8 for one in (first, second))


def test_given_parts_of_a_call_are_what_its_tool_determines() -> None:
    parts = list(json_calls([("find", {"name": "x", "n": 7})], {"find": ["name", "n"]}))
    assert "".join(part.text for part in parts) == (
        '[{"name":"find","arguments":{"name":"x","n":7}}]'
    )
    assert "".join(part.text for part in parts if not part.given) == 'x"7}]'
    chosen = list(json_calls([("find", {"n": 7})], {"find": ["name", "n"], "other": []}))
    assert "".join(part.text for part in chosen if not part.given) == 'find"n":7}]'


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    source = RecordSource("extraction", tmp_path, Codebook(), Scale())
    with pytest.raises(UsageError, match=r"bfcl_parallel_answers\.jsonl"):
        next(RECORDS["extraction"].read(source))


def test_a_step_of_the_game_replaces_two_numbers_by_one() -> None:
    (first, _), book = read("tree-of-thought", 2)
    outputs = {name: unspelled(book, text.units) for name, text in first.outputs.items()}
    calls = {call.name: call for call in first.trace.calls()}
    proposals = {name: text for name, text in outputs.items() if name.startswith("propose")}
    assert sorted(proposals)[0] == "propose0_0"
    assert {name[7] for name in proposals} == {"0", "1", "2"}
    for text in proposals.values():
        for line in text.splitlines():
            shown = re.fullmatch(r"(\S+) (.) (\S+) = (\S+) \(left: (.*)\)", line)
            assert shown is not None
            assert shown[4] in shown[5].split()
    for name, text in outputs.items():
        if name.startswith("value"):
            assert text.split("\n")[-2] in ("sure", "likely", "impossible")
            assert text.split("\n")[-2] == outputs[f"{name[:-1]}0"].split("\n")[-2]
            assert calls[name].after[0].startswith(f"propose{name[5]}")
    reached = [name for name, text in outputs.items() if name[5] == "2" and "sure" in text]
    assert reached  # the first puzzle can be solved


def test_tools_of_a_plan_begin_as_its_calls_close() -> None:
    (first, _), book = read("finance", 2)
    plan, report = first.trace.calls()
    units = first.outputs["plan"].units
    for tool in first.trace.tools():
        written = unspelled(book, units[: tool.at_token])
        assert written.endswith("}}")
        assert json.loads(f"{written}]")
    assert json.loads(unspelled(book, first.outputs["report"].units))["figures"]
    assert 0 < report.forced_tokens < report.output_tokens
    assert plan.site == "plan"


def test_a_recording_is_made_of_the_spans_of_a_run() -> None:
    asked = {"role": "user", "parts": [{"content": "Which"}, {"content": " one?"}]}
    call = {"type": "tool_call", "id": "1", "name": "prices", "arguments": {"symbol": "IBM"}}
    answered = {"role": "tool", "parts": [{"id": "1", "response": "[]"}]}
    written = {"role": "user", "parts": [{"content": "Write the report."}]}
    tools = [{"name": "prices", "parameters": {"properties": {"symbol": {}, "start": {}}}}]
    chat = [asked, {"role": "assistant", "parts": [call]}, answered, written]
    plan = {
        "agentrt.node.name": "plan",
        "gen_ai.input.messages": json.dumps([asked]),
        "gen_ai.tool.definitions": json.dumps(tools),
    }
    report = {
        "agentrt.node.name": "report",
        "gen_ai.input.messages": json.dumps(chat),
        "gen_ai.output.messages": json.dumps([{"parts": [{"content": "{}"}]}]),
    }
    spans = [{"tags": [{"key": key, "value": one[key]} for key in one]} for one in (plan, report)]
    assert row_of({"data": [{"spans": spans}]}) == {
        "tools": {"prices": ["symbol", "start"]},
        "definitions": json.dumps(tools, separators=(",", ":")),
        "asked": "Which one?",
        "calls": [{"name": "prices", "arguments": {"symbol": "IBM"}}],
        "results": ["[]"],
        "report": "{}",
    }
