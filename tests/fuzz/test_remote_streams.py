"""Random bytes in a remote server's answers: the whole text, or an error of that server."""

from random import Random

import anyio

from agentrt.base.clock import MonotonicClock
from agentrt.remote import RemoteBackend, RemoteLimits
from tests.fuzz.rounds import cases, dice_of
from tests.remote.hostile_server import DONE, Script, content, event, head, serving
from tests.remote.test_backend import outcome, request

LIMITS = RemoteLimits(
    event_bytes=9_000, answer_bytes=30_000, attempts=2, outage_s=0.0, pause_s=0.0, retry_after_s=0.0
)
WORDS = ("one ", "two ", "three")
STREAM = b"".join(event(content(word)) for word in WORDS) + event(content("", "stop")) + DONE
ERRORS = {"RequestRejected", "EngineDied", "EngineUnavailable", "OutputDiverged", "Unsupported"}
PIECES = (
    *(
        b"\x00",
        b"\xff\xfe",
        b"\r\n\r\n",
        b"data: ",
        b"data: {}\n\n",
        b"data: [DONE]\n\n",
        b"x" * 20_000,
    ),
    *(
        b"event: error\n",
        b": note\n",
        b'{"error":{"message":"no"}}',
        b"[" * 5_000,
        b"\xed\xa0\x80",
        b"",
    ),
)
HEADS = (
    *(
        head(),
        head(),
        head(),
        head(),
        head("500 Oh"),
        head("429 Slow", more="Retry-After: 1e9\r\n"),
    ),
    *(
        head("204 None"),
        head("301 Moved", more="Location: http://127.0.0.1:9/\r\n"),
        head(kind="x/y"),
    ),
    *(
        head(more="Content-Length: 50\r\n"),
        head(more="Content-Encoding: gzip\r\n"),
        b"",
        b"\xff\r\n",
    ),
    head(more="Transfer-Encoding: chunked\r\n"),
)


def answer(dice: Random) -> bytes:
    """An answer with some bytes cut out, changed or put in."""
    stream = bytearray(STREAM)
    for _ in range(dice.choice((0, 1, 1, 2, 4))):
        at = dice.randrange(len(stream) + 1)
        stream[at : at + dice.choice((0, 0, 1, 30))] = dice.choice((dice.randbytes(2), *PIECES))
    return dice.choice(HEADS) + bytes(stream[: dice.choice((len(stream), dice.randrange(300)))])


def test_random_answers_end_in_their_text_or_in_an_error_of_the_server() -> None:
    reasons: set[str] = set()

    async def main() -> None:
        script = Script([b""])
        async with serving(script) as url:
            backend = RemoteBackend(url, clock=MonotonicClock(), limits=LIMITS)
            await backend.start()
            script.opened = True
            for case in cases(80):
                script.answers = [answer(dice_of(case)), head() + STREAM]
                script.asked = 0
                with anyio.fail_after(60):
                    text, end = await outcome(backend, request())
                reasons.add(end.reason)
                text.encode()
                if end.reason == "failed":
                    assert end.error is not None
                    assert end.error.type in ERRORS, (case, end.error)
                    assert len(end.error.message) < 2_000
            await backend.aclose()

    anyio.run(main)
    assert {"stop", "failed"} <= reasons
