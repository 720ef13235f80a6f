"""Contracts cross a process unchanged, and what is malformed is an error."""

import contextlib
import math
from pathlib import Path

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.base import constraint_spec, errors, ids, sampling_params, segments
from agentrt.base.config import EngineConfig
from agentrt.protocol import backend, step_output
from agentrt.protocol.wire import FrameReader, Wire

SEEDED = settings(
    max_examples=30, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
SCHEMAS = st.builds(
    segments.ToolSchema,
    name=st.text(),
    description=st.text(),
    parameters=st.dictionaries(st.text(), JSON, max_size=3),
)
st.register_type_strategy(segments.ToolSchema, SCHEMAS)
st.register_type_strategy(
    sampling_params.SamplingParams,
    st.builds(
        sampling_params.SamplingParams,
        max_tokens=st.integers(1, 10**6),
        temperature=st.floats(0, 10),
        top_k=st.integers(0, 100),
        top_p=st.floats(0.01, 1),
        min_p=st.floats(0, 1),
        repetition_penalty=st.floats(0.1, 2),
        seed=st.integers(-(2**63), 2**64 - 1),
        stop=st.lists(st.text(min_size=1), max_size=3).map(tuple),
        logprobs=st.integers(0, 20),
    ),
)
st.register_type_strategy(float, st.floats(allow_nan=False))
st.register_type_strategy(Path, st.text(alphabet="abc/.", min_size=1).map(Path))

TRAVELLERS = (
    backend.GenerateRequest,
    backend.HoleFill,
    backend.SchedulingInfo,
    backend.Capabilities,
    step_output.StepDone,
    step_output.BackendDown,
    backend.TokenPrompt,
    backend.MessagePrompt,
    constraint_spec.ConstraintSpec,
    errors.ErrorRecord,
    segments.Generated,
    segments.CallFrame,
    EngineConfig,
)
WIRE = Wire(*TRAVELLERS)


def there_and_back(value):
    return WIRE.value(FrameReader().feed_data(WIRE.frame(value))[0])


@pytest.mark.parametrize("cls", TRAVELLERS, ids=lambda cls: cls.__name__)
def test_every_contract_comes_back_equal(cls):
    @SEEDED
    @given(st.from_type(cls))
    def check(value):
        back = there_and_back(value)
        assert back == value
        assert type(back) is type(value)

    check()


def test_infinities_and_big_numbers_come_back():
    facts = backend.SchedulingInfo(ids.RequestId(1), demanded=True, rest_s=math.inf)
    assert there_and_back(facts) == facts
    request = backend.TokenPrompt((2**64, -(2**70), 0), complete=False)
    assert there_and_back(request) == request


def test_lone_surrogates_come_back():
    text = errors.ErrorRecord("UsageError", "cut \ud83d here")
    assert there_and_back(text) == text


def test_key_order_of_a_schema_is_kept():
    schema = segments.ToolSchema("t", "", {"z": 1, "a": {"y": 1, "b": 2}})
    wire = Wire(segments.ToolSchema)
    back = wire.value(wire.frame(schema)[4:])
    assert list(back.parameters) == ["z", "a"]
    assert list(back.parameters["a"]) == ["y", "b"]


@SEEDED
@given(
    st.lists(st.builds(backend.HoleFill, st.lists(st.integers(0, 9)).map(tuple), st.booleans())),
    st.lists(st.integers(1, 7), min_size=1),
)
def test_frames_survive_any_cutting(fills, cuts):
    wire = Wire(backend.HoleFill)
    stream = b"".join(wire.frame(fill) for fill in fills)
    reader, got, at, turn = FrameReader(), [], 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        got += reader.feed_data(stream[at : at + size])
        at, turn = at + size, turn + 1
    assert [wire.value(payload) for payload in got] == fills


STOP = step_output.End(ids.RequestId(1), "stop")
INFO = backend.SchedulingInfo(ids.RequestId(1), demanded=True, rank_s=1.25)
CALLS = constraint_spec.ConstraintSpec("calls", tools=(segments.ToolSchema("t", "", {"a": None}),))
BIG = msgpack.packb(msgpack.ExtType(1, b"\x7f" * 200))


def swapped(value, old, new):
    """The payload of a value with other bytes in one place."""
    payload = WIRE.frame(value)[4:]
    assert payload.count(old) == 1
    return payload.replace(old, new)


MALFORMED = [
    ("empty", b"", "malformed frame"),
    ("not msgpack", b"\xc1", "malformed frame"),
    (
        "trailing bytes",
        msgpack.packb(["HoleFill", [1], True, None, [], ""]) + b"\x00",
        "malformed frame",
    ),
    ("unknown class", msgpack.packb(["Nope"]), "one of"),
    ("missing field", msgpack.packb(["HoleFill", [1]]), "HoleFill of 6 fields expected"),
    (
        "wrong type",
        msgpack.packb(["HoleFill", ["x"], True, None, [], ""]),
        "HoleFill.token_ids: int expected",
    ),
    (
        "bool for int",
        msgpack.packb(["HoleFill", [True], True, None, [], ""]),
        "HoleFill.token_ids: int expected",
    ),
    (
        "scalar for array",
        msgpack.packb(["HoleFill", 7, True, None, [], ""]),
        "HoleFill.token_ids: an array expected",
    ),
    ("unknown extension", msgpack.packb(msgpack.ExtType(9, b"")), "extension 9"),
    ("a bare number", msgpack.packb(7), "one of"),
    ("bad UTF-8", b"\xa1\xff", "malformed frame"),
    ("a key that is no key", b"\x81\x80\xc0", "malformed frame"),
    ("an object for a literal", msgpack.packb([{}]), "one of"),
    ("nested", b"\x91" * 1_000 + b"\xc0", "malformed frame"),
    (
        "nested user data",
        swapped(
            CALLS, b"\xa1a\xc0", b"\xa1a" + b"\x91" * 1_000 + b"\xc0"
        ),  # levels that msgpack takes
        "malformed",
    ),
    ("a number too large", swapped(INFO, msgpack.packb(1.25), BIG), "malformed frame"),
]


@pytest.mark.parametrize(("payload", "message"), [row[1:] for row in MALFORMED],
                         ids=[row[0] for row in MALFORMED])  # fmt: skip
def test_malformed_payloads_are_errors(payload, message):
    with pytest.raises(errors.InternalError, match=message):
        WIRE.value(payload)


def test_a_literal_outside_its_values_is_an_error():
    wire = Wire(step_output.End)
    payload = wire.frame(STOP)[4:].replace(b"stop", b"halt")
    with pytest.raises(errors.InternalError, match=r"End\.reason: one of"):
        wire.value(payload)


def test_a_field_of_another_class_is_an_error():
    wire = Wire(step_output.BackendDown)
    error = errors.ErrorRecord("EngineDied", "")
    payload = wire.frame(step_output.BackendDown(error, (), restarting=True))[4:]
    with pytest.raises(errors.InternalError, match=r"BackendDown\.error: ErrorRecord expected"):
        wire.value(payload.replace(b"ErrorRecord", b"EnvErrorRec"))


def test_a_value_out_of_range_is_an_error():
    wire = Wire(sampling_params.SamplingParams)
    payload = wire.frame(sampling_params.SamplingParams(max_tokens=7))[4:]
    assert payload.count(b"\x07") == 1
    with pytest.raises(errors.InternalError, match="max_tokens=0"):
        wire.value(payload.replace(b"\x07", b"\x00"))


def test_an_endless_frame_is_refused_at_its_length():
    with pytest.raises(errors.InternalError, match="length"):
        FrameReader().feed_data(b"\xff\xff\xff\xff")


@SEEDED
@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_the_error(payload):
    with contextlib.suppress(errors.InternalError):
        WIRE.value(payload)


def test_a_stranger_is_not_sent():
    with pytest.raises(errors.InternalError, match="does not belong"):
        Wire(backend.HoleFill).frame(STOP)  # type: ignore[arg-type]
