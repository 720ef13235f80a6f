"""Typed outputs over servers that enforce little: the form that is sent, the check of answers."""

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentrt import Calls, CheckFailed, Final, Truncated, chat, program, regex, tool
from agentrt.app import open_runtime
from agentrt.protocol.events import AttemptFailed, NodeFinished
from agentrt.protocol.step_output import Ledger
from tests.remote.scripted_server import Script, calls, delta, scripted, text
from tests.remote.test_program import Recorder

ASK = chat(system="Be brief.").user("Well?")


class Parcel(BaseModel):
    pieces: Annotated[int, Field(ge=10, le=99)]
    note: str = "none"


@tool(effects="pure")
def double(x: Annotated[int, Field(ge=0, le=99)]) -> int:
    """Twice x."""
    return 2 * x


@pytest.fixture
def played(portal):
    """Plays a program over a script; gives its value or error, and the events."""

    def play(script: Script, body: Callable[[], Any]) -> tuple[Any, Recorder]:
        recorder = Recorder()

        @program
        async def played_program() -> Any:
            return await body()

        async def main() -> Any:
            async with (
                scripted(script) as url,
                open_runtime(engine=url, remote_model="m", observers=[recorder]) as runtime,
            ):
                try:
                    return await runtime.run(played_program)
                except Exception as error:
                    return error

        return portal.call(main), recorder

    return play


def finished(recorder: Recorder) -> NodeFinished:
    """The end of the only generation."""
    (one,) = (
        event
        for event in recorder.events
        if isinstance(event, NodeFinished) and event.ledger is not None
    )
    return one


def ledger_of(recorder: Recorder) -> Ledger:
    ledger = finished(recorder).ledger
    assert ledger is not None
    return ledger


def test_an_answer_that_does_not_obey_is_told_so_and_given_again(played):
    script = Script([text("Yes."), text("yes")])
    value, seen = played(script, lambda: ASK.generate(Literal["yes", "no"]))
    assert value == "yes"
    first, second = script.seen
    assert (
        'one of these texts, without quotes, and nothing else: ["yes","no"]'
        in (first["messages"][0]["content"])
    )
    assert second["messages"][-2] == {"role": "assistant", "content": "Yes."}
    assert "'Yes.' is none of the options" in second["messages"][-1]["content"]
    (failed,) = (one for one in seen.events if isinstance(one, AttemptFailed))
    assert failed.ledger.output_tokens == 2
    attributes = finished(seen).attributes
    assert attributes["agentrt.constraint.form"] == "an instruction"
    assert attributes["agentrt.constraint.enforced"] is False


def test_answers_that_never_obey_end_in_one_line(played):
    script = Script([text("I would rather not.")])
    error, _ = played(script, lambda: ASK.generate(int))
    assert isinstance(error, CheckFailed)
    assert len(error.attempts) == len(script.seen) == 3
    assert "\n" not in error.message
    assert "it is no JSON" in error.message
    assert "not known to enforce" in error.hint


def test_blanks_and_the_order_of_keys_do_not_matter(played):
    script = Script([text('{ "note": "two words",\n "pieces": 12 }')])
    value, _ = played(script, lambda: ASK.generate(Parcel))
    assert value == Parcel(pieces=12, note="two words")
    assert len(script.seen) == 1


def test_text_of_a_pattern_is_followed_by_the_matcher(played):
    script = Script([text("AB-12"), text("AB-123")])
    value, _ = played(script, lambda: ASK.generate(regex("[A-Z]{2}-[0-9]{3}")))
    assert value == "AB-123"
    assert "it is not whole" in script.seen[1]["messages"][-1]["content"]


def test_items_are_not_handed_out_before_the_whole_list_is_checked(played):
    script = Script([text("[1,2,"), text("[3,4]")])

    async def body():
        return [item async for item in ASK.each(int)]

    value, _ = played(script, body)
    assert value == [3, 4]


def test_a_default_is_nullable_on_the_wire_and_absent_in_the_value(played):
    script = Script([text('{"pieces":12,"note":null}')], enforces={"json"})
    value, seen = played(script, lambda: ASK.generate(Parcel))
    assert value == Parcel(pieces=12, note="none")
    sent = script.seen[0]["response_format"]["json_schema"]
    assert sent["strict"]
    assert sent["schema"]["required"] == ["pieces", "note"]
    assert {"type": "null"} in sent["schema"]["properties"]["note"]["anyOf"]
    assert finished(seen).attributes["agentrt.constraint.form"] == "response_format, strict"


def test_a_value_that_is_no_object_is_wrapped(played):
    script = Script([text('{"value": [1, 2]}')], enforces={"json"})
    value, seen = played(script, lambda: ASK.generate(list[int]))
    assert value == [1, 2]
    assert script.seen[0]["response_format"]["json_schema"]["schema"]["type"] == "object"
    assert finished(seen).attributes["agentrt.constraint.enforced"] is True


def test_a_choice_is_an_enum_where_only_schemas_are_known(played):
    script = Script([text('{"value":"no"}')], enforces={"json"})
    value, _ = played(script, lambda: ASK.generate(Literal["yes", "no"]))
    assert value == "no"


def test_bounds_that_are_refused_are_checked_here(played):
    def refuses(body):
        return "'minimum' is not permitted." if '"minimum": 10' in json.dumps(body) else None

    few, many = '{"pieces":3,"note":"a"}', '{"pieces":33,"note":"a"}'
    script = Script([text(few), text(many)], {"json"}, refuses)
    value, seen = played(script, lambda: ASK.generate(Parcel))
    assert value == Parcel(pieces=33, note="a")
    assert "less than the minimum of 10" in script.seen[1]["messages"][-1]["content"]
    attributes = finished(seen).attributes
    assert attributes["agentrt.constraint.enforced"] is False
    assert attributes["agentrt.constraint.checked_keywords"] == ("maximum", "minimum")


def test_calls_beside_a_final_answer_are_chosen_freely_and_checked(played):
    script = Script(
        [calls(("double", '{"x": 100}')), calls(("double", '{"x":4}'), ("double", '{"x":5}'))],
        enforces={"calls"},
    )
    value, seen = played(script, lambda: ASK.step(tools=[double], final=str))
    assert isinstance(value, Calls)
    assert [call.arguments for call in value.calls] == [{"x": 4}, {"x": 5}]
    assert script.seen[0]["tool_choice"] == "auto"
    assert "the arguments of double do not fit" in script.seen[1]["messages"][-1]["content"]
    assert finished(seen).attributes["agentrt.constraint.form"] == "tools, tool_choice auto"


def test_plain_text_beside_tools_is_a_final_answer(played):
    script = Script([text("It is 8.")], enforces={"calls"})
    value, _ = played(script, lambda: ASK.step(tools=[double], final=str))
    assert value == Final("It is 8.")


def test_a_value_is_the_arguments_of_a_call_where_only_tools_are_known(played):
    script = Script([calls(("give_answer", '{"value": 7}'))], enforces={"calls"})
    value, _ = played(script, lambda: ASK.generate(int))
    assert value == 7


def test_an_answer_cut_off_is_closed_by_the_matcher(played):
    script = Script([text('{"pieces": 1', "length")], enforces={"json"})
    value, seen = played(script, lambda: ASK.generate(Parcel, on_limit="close"))
    assert isinstance(value, Parcel)
    assert str(value.pieces).startswith("1")
    end = finished(seen)
    assert end.closed_early
    assert end.finish_reason == "length"
    assert int(str(end.attributes["agentrt.closing.characters"])) >= 2


def test_an_answer_that_begins_no_valid_one_stays_cut_off(played):
    script = Script([text('{"pieces": "many', "length")], enforces={"json"})
    error, seen = played(script, lambda: ASK.generate(Parcel, on_limit="close"))
    assert isinstance(error, Truncated)
    assert "No valid end" in error.hint
    assert "agentrt.closing.characters" not in finished(seen).attributes


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_and_counted(played, field):
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 9,
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    script = Script(
        [[delta({field: "Let me "}), delta({field: "see."}), *text("Done.")]], usage=usage
    )

    async def body():
        gen = ASK.generate()
        return await gen, gen.thinking

    value, seen = played(script, body)
    assert value == ("Done.", "Let me see.")
    assert ledger_of(seen).thinking_tokens == 7


def test_reasoning_in_a_tag_is_no_part_of_the_answer(played):
    script = Script([text("<think>\nyes or no?</think>\n\nno")])

    async def body():
        answer = ASK.generate(Literal["yes", "no"])
        return await answer, answer.thinking

    value, seen = played(script, body)
    assert value == ("no", "yes or no?")
    assert ledger_of(seen).thinking_tokens > 0


def test_parameters_that_a_model_fixes_are_left_out(played):
    def refuses(body):
        for name in ("temperature", "seed"):
            if name in body:
                return f"Unsupported value: '{name}' does not support {body[name]} with this model."
        return "Use 'max_completion_tokens' instead." if "max_tokens" in body else None

    script = Script([text("Hi.")], refuses=refuses)
    value, seen = played(script, lambda: ASK.generate(max_tokens=9))
    assert value == "Hi."
    assert finished(seen).attributes["agentrt.sampling.not_sent"] == ("seed", "temperature")
    assert script.seen[0]["max_completion_tokens"] == 9
    assert not script.seen[0].keys() & {"temperature", "seed", "max_tokens"}


def test_a_form_that_is_refused_in_the_stream_gives_way_to_the_next(played):
    refused = [{"error": {"message": "this schema is too large", "code": 400}}]
    script = Script([refused, text('{"value":7}')], enforces={"json"})
    value, seen = played(script, lambda: ASK.generate(int))
    assert value == 7
    assert finished(seen).attributes["agentrt.constraint.form"] == "response_format, not strict"


def test_a_form_that_was_refused_for_a_constraint_is_not_sent_for_it_again(played):
    """Each of eight answers would cost a request that is refused; other schemas are not judged."""

    def refuses(body):
        schema = json.dumps(body.get("response_format", {}))
        strict = '"strict": true' in schema
        if strict and "pieces" in schema:
            tried.append(1)
        return "this schema is too large" if strict and "pieces" in schema else None

    tried: list[int] = []
    script = Script([text('{"pieces":12}'), text('{"value":7}')], {"json"}, refuses)

    async def body():
        first = [await ASK.generate(Parcel)]
        script.answers, script.seen = [text('{"pieces":12}')], []
        first += [await ASK.generate(Parcel) for _ in range(7)]
        script.answers, script.seen = [text('{"value":7}')], []
        return first, await ASK.generate(int)

    (parcels, number), _ = played(script, body)
    assert [one.pieces for one in parcels] == [12] * 8
    assert number == 7
    assert len(tried) <= 2  # with its bounds, and without
    assert script.seen[0]["response_format"]["json_schema"]["strict"]


def test_a_refusal_that_no_form_mends_is_reported_as_it_was(played):
    script = Script(
        [], refuses=lambda body: None if len(body["messages"]) == 1 else "No such thing."
    )
    error, _ = played(script, lambda: ASK.generate(int))
    assert type(error).__name__ == "RequestRejected"
    assert "No such thing." in error.message
