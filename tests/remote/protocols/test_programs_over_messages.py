"""Programs over a scripted server of Anthropic Messages: limits, loads and thoughts."""

import json

import pytest
from pydantic import BaseModel

from agentrt import RemoteEngineConfig, RequestRejected, UsageError, chat, program
from agentrt.app import open_runtime
from agentrt.remote import listed_models
from tests.remote.hostile_server import event, head, message, serving
from tests.remote.test_program import Recorder
from tests.remote.test_typed_answers import finished, ledger_of

ASK = chat(system="Be brief.").user("Well?")


class Parcel(BaseModel):
    pieces: int
    note: str = "none"


class Answers:
    """Answers of the server in turn, and the requests that got them."""

    def __init__(self, *answers):
        self.answers = answers
        self.seen = []

    async def __call__(self, path, body, writer):
        assert path == "/v1/messages"
        self.seen.append(json.loads(body))
        writer.write(self.answers[min(len(self.seen), len(self.answers)) - 1])
        await writer.drain()


def streamed(*events):
    return head() + b"".join(map(event, events))


@pytest.fixture
def played(portal):
    """Plays a program over answers; gives its value or error, and the events."""

    def play(answers, body, **settings):
        recorder = Recorder()

        @program
        async def played_program():
            return await body()

        async def main():
            async with serving(answers) as url:
                engine = RemoteEngineConfig(kind="anthropic", address=url, model="m", **settings)
                try:
                    async with open_runtime(engine=engine, observers=[recorder]) as runtime:
                        return await runtime.run(played_program)
                except Exception as error:
                    return error

        return portal.call(main), recorder

    return play


def test_an_answer_cut_off_is_closed_by_the_matcher(played):
    answers = Answers(streamed(*message('{"pieces": 1', "max_tokens")))
    value, seen = played(answers, lambda: ASK.generate(Parcel, on_limit="close"))
    assert isinstance(value, Parcel)
    assert str(value.pieces).startswith("1")
    assert finished(seen).closed_early
    assert answers.seen[0]["output_config"]["format"]["type"] == "json_schema"
    attributes = finished(seen).attributes
    assert attributes["agentrt.constraint.form"] == "output_config.format, strict"
    assert attributes["agentrt.sampling.not_sent"] == ("seed",)


@pytest.mark.parametrize("status", ["529 Overloaded", "429 Too Many Requests"])
def test_a_crowded_server_is_asked_again(played, status):
    crowd = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    refused = head(status, "application/json", "retry-after: 0\r\n") + json.dumps(crowd).encode()
    answers = Answers(*[refused] * 4, streamed(*message("Hi.")))
    limits = {"pause_s": 0.0, "attempts": 2}  # what it has no room for is no attempt
    value, _ = played(answers, lambda: ASK.generate(), limits=limits)
    assert value == "Hi."
    assert len(answers.seen) == 5


def test_an_overload_in_the_stream_is_asked_again(played):
    crowd = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    answers = Answers(streamed(crowd), streamed(*message("Hi.")))
    value, _ = played(answers, lambda: ASK.generate(), limits={"pause_s": 0.0})
    assert value == "Hi."


def test_a_fault_of_the_request_is_not_asked_again(played):
    wrong = {"type": "error", "error": {"type": "invalid_request_error", "message": "no such"}}
    answers = Answers(streamed(wrong))
    error, _ = played(answers, lambda: ASK.generate())
    assert isinstance(error, RequestRejected)
    assert len(answers.seen) == 1


def test_a_temperature_that_a_model_refuses_is_not_sent_again(played):
    wrong = {"error": {"message": "`temperature` is deprecated for this model."}}
    refused = head("400 Bad Request", "application/json") + json.dumps(wrong).encode()
    answers = Answers(refused, streamed(*message("Hi.")))

    async def twice():
        return await ASK.generate(), await ASK.generate(max_tokens=9)

    value, _ = played(answers, twice)
    assert value == ("Hi.", "Hi.")
    assert ["temperature" in body for body in answers.seen] == [True, False, False]


def test_thoughts_within_a_budget_are_kept_and_counted(played):
    thoughts = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "thinking_delta", "thinking": "Let me see."},
        },
    ]
    delta = {"type": "text_delta", "text": "Done."}
    counts = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 7}}
    answers = Answers(
        streamed(
            {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
            *thoughts,
            {"type": "content_block_delta", "index": 1, "delta": delta},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": counts},
            {"type": "message_stop"},
        )
    )

    async def body():
        gen = ASK.generate(thinking=2048, max_tokens=4096)
        return await gen, gen.thinking

    value, seen = played(answers, body)
    assert value == ("Done.", "Let me see.")
    assert answers.seen[0]["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    ledger = ledger_of(seen)
    assert (ledger.prompt_tokens, ledger.output_tokens, ledger.thinking_tokens) == (5, 9, 7)
    assert finished(seen).attributes["agentrt.sampling.not_sent"] == ("seed", "temperature")


def test_an_account_that_no_header_carries_is_an_error(played):
    error, _ = played(Answers(streamed()), lambda: ASK.generate(), organisation="org-1")
    assert isinstance(error, UsageError)
    assert "organisation" in error.message


def test_all_models_are_listed(portal):
    """A page of the list has 20 models if no number is given."""
    paths = []

    async def listing(path, body, writer):
        paths.append(path)
        models = {"data": [{"type": "model", "id": f"m{at}"} for at in range(25)]}
        writer.write(head(kind="application/json") + json.dumps(models).encode())
        await writer.drain()

    async def main():
        async with serving(listing) as url:
            return await listed_models(RemoteEngineConfig(kind="anthropic", address=url))

    assert len(portal.call(main)) == 25
    assert paths == ["/v1/models?limit=1000"]
