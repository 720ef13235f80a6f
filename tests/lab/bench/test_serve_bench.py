"""The bench of the server: its raw client, its questions, its figures, and parts in little."""

import asyncio
import contextlib
import json

import pytest

from agentrt import embedded
from agentrt.cli.main import answer
from agentrt.lab.bench.serve.crowd import CrowdSample
from agentrt.lab.bench.serve.latency import LatencyPairs
from agentrt.lab.bench.serve.plain_app import plain_app
from agentrt.lab.bench.serve.questions import QuestionMaker
from agentrt.lab.bench.serve.raw_connection import chat_request, connected, health_request
from agentrt.lab.errors import BenchFailed

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"
STREAM = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    b"10\r\ndata: a\r\n\r\n",
    b"0\r\n\r\n",
)


def exchanged(*parts: bytes, closes: bool = False):
    """The answer to a request, whose parts a server sends one by one."""

    async def main():
        ended = asyncio.Event()

        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            with contextlib.suppress(ConnectionError):
                if not closes:
                    await reader.read()  # until the client closes
            writer.close()
            ended.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            connection = await connected(server.sockets[0].getsockname()[1])
            found = await connection.exchange(health_request())
            connection.close()
            await ended.wait()
        return found

    return asyncio.run(main())


@pytest.mark.parametrize("parts", [(WHOLE,), (WHOLE[:30], WHOLE[30:]), STREAM])
def test_an_answer_is_read_to_its_end(parts):
    found = exchanged(*parts)
    assert found.status == 200
    assert found.head_and_body == b"".join(parts)
    assert 0 < found.first_s <= found.whole_s


def test_a_connection_that_closes_is_no_answer():
    assert exchanged(closes=True).status == 0
    assert exchanged(WHOLE[:-1], closes=True).head_and_body == WHOLE[:-1]


def test_a_chat_request_has_its_key_and_length():
    head, _, body = chat_request({"model": "m"}, "secret").partition(b"\r\n\r\n")
    assert json.loads(body) == {"model": "m"}
    assert b"authorization: Bearer secret" in head
    assert f"content-length: {len(body)}".encode() in head
    assert b"authorization" not in chat_request({})


def test_questions_have_the_wanted_length_and_beginnings_of_their_own():
    maker = QuestionMaker(embedded.path(), "m")
    one, same, other = (maker.question(key, 64, max_tokens=1) for key in "aab")
    assert one == same
    assert len(one.token_ids) == len(other.token_ids) == 64
    assert one.fields["max_tokens"] == 1
    texts = [each.fields["messages"][0]["content"] for each in (one, other)]
    assert texts[0][:8] != texts[1][:8]
    with pytest.raises(BenchFailed, match="has 1 tokens"):
        maker.question("a", 1)


def test_figures_compare_medians_and_means():
    pairs = LatencyPairs([3.0, 1.0, 2.0], [1.0, 1.0, 4.0])
    assert (pairs.ratio, pairs.added_s) == (2.0, 1.0)
    sample = CrowdSample(crowd_s=[1.0, 3.0], newcomer_s=[0.5, 1.5])
    assert (sample.ratio, max(sample.ratios)) == (0.5, 0.75)


def test_the_plain_application_answers_with_its_length():
    events = []

    async def send(event):
        events.append(event)

    async def receive():
        return {}

    asyncio.run(plain_app({}, receive, send))
    start, body = events
    assert dict(start["headers"])[b"content-length"] == str(len(body["body"])).encode()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--parts", "speed"], "--parts speed is not known"),
        (["--parts", "health,,chat"], "--parts has an empty name"),
    ],
)
def test_a_wrong_flag_is_refused(flags, said, capsys):
    assert answer(["bench", "serve", *flags]) == 2
    assert said in capsys.readouterr().err


def measured(parts, path, capsys):
    """Results by part, and the beginnings of the printed lines."""
    flags = ["--parts", parts, "--pairs", "2", "--clients", "4", "--seconds", "1"]
    assert answer(["bench", "serve", *flags, "--json", str(path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    results = json.loads(path.read_text("utf-8"))["parts"]
    return results, [line.partition(":")[0] for line in printed]


def test_parts_are_measured_and_written(tmp_path, capsys):
    """Few pairs, and one second beside half-open connections."""
    found, lines = measured("health,half-open", tmp_path / "found.json", capsys)
    assert lines == ["health check", "half-open"]
    assert found["health"]["served_s"]["count"] == 20
    assert len(found["half-open"]["waits_s"]) + sum(found["half-open"]["refusals"].values()) == 1


@pytest.mark.slow
def test_a_chat_and_a_crowd_are_measured(tmp_path, capsys):
    """Few pairs, and a small crowd."""
    found, lines = measured("chat,keys", tmp_path / "found.json", capsys)
    assert lines == ["chat of 200 + 1 tokens", "keys"]
    assert len(found["keys"]["newcomer_s"]) == found["keys"]["statuses"]["newcomer 200"] == 10
    assert found["keys"]["crowd_s"]
    assert found["chat"]["served_s"]["count"] == 2
