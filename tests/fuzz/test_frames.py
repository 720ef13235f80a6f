"""Mutated frames of the engine's pipe: each is a message or the documented error."""

import random
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest

from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ErrorRecord, InternalError
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import Close, Generated, Open, Text, ToolSchema
from agentrt.engine.process import messages
from agentrt.engine.process.messages import COMMANDS, REPORTS
from agentrt.protocol.backend import (
    Capabilities,
    GenerateRequest,
    HoleFill,
    MessagePrompt,
    PrefixHint,
    SchedulingInfo,
    TokenPrompt,
)
from agentrt.protocol.step_output import Delta, End, StepDone
from agentrt.protocol.wire import FrameReader, Wire
from tests.fuzz.rounds import cases, dice_of

ID = RequestId(7)
TOOL = ToolSchema("f", "a tool", {"type": "object", "properties": {"a": {"enum": [1, None]}}})
SEGMENTS = (Open("user"), Text("Hello"), Generated("x", (1, 2)), Close())
INFO = SchedulingInfo(ID, demanded=True, deadline_at_s=2.5)
CALLS = ConstraintSpec("calls", source="{}", tools=(TOOL,))


def request(prompt: Any, **fields: Any) -> GenerateRequest:
    names = (RunId("r"), NodeId("n"), "site.py:1")
    return GenerateRequest(ID, *names, prompt, SamplingParams(max_tokens=5, stop=("a",)), **fields)


SENT = (
    request(TokenPrompt((1, 2, 3)), constraint=CALLS, info=INFO, thinking_tokens=4),
    request(MessagePrompt(SEGMENTS, (TOOL,)), on_limit="close", output_ids=(4, 5)),
    messages.LoadEngine(EngineConfig(Path("a/b"))),
    messages.ExtendPrompt(ID, HoleFill((1, 2), complete=True)),
    messages.Reprioritize((INFO, INFO)),
    messages.Cancel(ID, "enough"),
    messages.Prewarm((CALLS, ConstraintSpec("choice", options=("a", "b")))),
    PrefixHint((1, 2), "keep", until_s=3.0),
    messages.Shutdown(),
)
REPORTED = (
    Capabilities("embedded", "m", "tokens", constraints=frozenset({"json", "regex"})),
    StepDone(None, (Delta(ID, (1, 2), "text"),), (End(ID, "stop"),)),
    StepDone(None, (), (End(ID, "failed", error=ErrorRecord("EngineDied", "gone")),)),
    ErrorRecord("ModelInvalid", "no"),
)
DIRECTIONS: tuple[tuple[Wire[Any], tuple[Any, ...]], ...] = ((COMMANDS, SENT), (REPORTS, REPORTED))
NESTED: Any = ()
for _ in range(500):
    NESTED = (NESTED,)

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**63, 2**64 - 1, 1.5, float("nan"), float("inf"), -0.0, b"", b"\xff"),
    *("", "x", "\ud800", "keep", "stop", "HoleFill", (), (()), ("Text",), ("HoleFill", (1,), True)),
    *({}, {"a": {}}, {1: 2}, {None: ()}, {("a",): 1}, (None,) * 1_000, NESTED),
    *(msgpack.ExtType(1, b""), msgpack.ExtType(1, b"\x7f" * 200), msgpack.ExtType(9, b"x")),
    *(
        msgpack.ExtType(-1 & 0x7F, b"x"),
        msgpack.Timestamp(1, 2),
        msgpack.ExtType(1, b"\xff" * 9_000),
    ),
)
PIECES = (
    *(
        b"\xc0",
        b"\xc1",
        b"\x90" * 2_000,
        b"\x91" * 2_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
    ),
    *(
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xd4\xff\x00",
        b"\xd6\xff\xff\xff\xff\xff",
    ),
    *(
        b"\xc7\x0c\xff" + b"\xff" * 12,
        b"\x81\x80\xc0",
        b"\x81\x90\xc0",
        b"\xca\x7f\xc0\x00\x00",
        b"",
    ),
)


def mutated(dice: Random, payload: bytes) -> bytes:
    """A payload with odd parts, or odd bytes."""
    if dice.random() < 0.5:
        plain = msgpack.unpackb(payload, strict_map_key=False, ext_hook=msgpack.ExtType)
        for _ in range(dice.randint(1, 3)):
            plain = spoiled(dice, plain)
        return msgpack.packb(plain, unicode_errors="surrogatepass")  # type: ignore[no-any-return]
    changed = bytearray(payload)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(changed) + 1)
        piece = dice.choice((dice.randbytes(1), dice.choice(PIECES)))
        changed[at : at + dice.randint(0, 3)] = piece
    return bytes(changed)


def spoiled(dice: Random, plain: Any) -> Any:
    """A copy with one part, anywhere, replaced, dropped or doubled."""
    if not isinstance(plain, list | tuple) or not plain or dice.random() < 0.1:
        return dice.choice(ODD)
    copy, at = list(plain), dice.randrange(len(plain))
    match dice.randrange(6):
        case 0:
            del copy[at]
        case 1:
            copy.insert(at, copy[at])
        case _:
            copy[at] = spoiled(dice, copy[at])
    return copy


def read(wire: Wire[Any], payload: bytes) -> str:
    try:
        value = wire.value(payload)
    except InternalError as error:
        return str(error)
    return type(value).__name__


@pytest.mark.parametrize(("wire", "values"), DIRECTIONS, ids=["commands", "reports"])
def test_a_mutated_frame_is_a_message_or_the_error(wire, values):
    payloads = [FrameReader().feed_data(wire.frame(value))[0] for value in values]
    kinds = {type(value).__name__ for value in values}
    seen = {"message": 0, "error": 0}
    for case in cases(1_500):
        dice = dice_of(case)
        payload = mutated(dice, dice.choice(payloads))
        try:
            found = read(wire, payload)
        except Exception as error:
            error.add_note(f"case {case}: {payload[:300]!r}")
            raise
        assert found in kinds or "malformed frame" in found
        assert len(found) < 10_000
        seen["message" if found in kinds else "error"] += 1
    assert min(seen.values()) > 10


@pytest.mark.parametrize("piece", [b"\xc0", b"\x90", b"\x80", b"\xa0", b"\xc4\x00"])
def test_memory_of_a_frame_is_in_proportion(piece):
    """Also where each byte of it is a value of its own."""
    payload = b"\xdd" + (100_000 // len(piece)).to_bytes(4) + piece * (100_000 // len(piece))
    tracemalloc.start()
    try:
        with pytest.raises(InternalError):
            COMMANDS.value(payload)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100 * len(payload)


def test_a_stream_of_garbage_is_refused_or_waited_for():
    for case in cases(50):
        dice = random.Random(case)
        reader = FrameReader()
        try:
            for payload in reader.feed_data(dice.randbytes(dice.randint(0, 99))):
                read(COMMANDS, payload)
        except InternalError as error:
            assert "length" in error.message  # noqa: PT017
