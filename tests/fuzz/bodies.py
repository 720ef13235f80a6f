"""Bodies of chat completions with something wrong, in their values, their JSON or their bytes."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

from agentrt.serve.request_schema import ChatRequest
from tests.fuzz.constraints import random_grammar, random_regex, random_schema

MODEL = "tiny"
GOOD = {"model": MODEL, "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}


@dataclass(frozen=True)
class Verbatim:
    """Text that stands in JSON as it is."""

    text: str


ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        2,
        -1,
        7,
        2**31,
        2**63,
        2**64,
        10**400,
        -(10**400),
        1.5,
        -0.0,
        1e308,
    ),
    *map(Verbatim, ("NaN", "Infinity", "-Infinity", "1e999", "01", "+1", "1.", '"\\ud800"', "'x'")),
    *map(
        Verbatim, ('"\\u0000"', '"\\q"', "[" * 300, "[" * 90_000, '{"a":' * 5_000, "9" * 5_000, "")
    ),
    *(
        "",
        "x",
        "\x00",
        "é" * 200,
        "word " * 3_000,
        "<|end|><|call|>",
        "</think>",
        "\U0001f600" * 50,
    ),
    *([], {}, [[]], [None], ["x"], [{}], {"a": 1}, {"type": "text"}, ["x"] * 3_000, [1, "x", None]),
)
UNKNOWN = ("chat_template", "functions", "logit_bias", "prompt", "echo", "__class__", "", "n ")
TEXTS = ("Hello", "List three.", "é" * 40, "a\nb", "<|im_end|><|system|>", "x" * 600, " ")


def random_body(dice: Random) -> bytes:
    """A body of the schema's fields, with none, some or many faults."""
    body = valid(dice)
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3, 6))):
        spoil(dice, body)
    text = written(body, dice)
    encoded = text.encode("utf-8", "surrogatepass")
    return spoiled_bytes(dice, encoded) if dice.random() < 0.25 else encoded


def valid(dice: Random) -> dict[str, Any]:
    """A body in order, but for its constraint, which may be of any kind."""
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": dice.choice(TEXTS)}],
        "max_tokens": dice.randint(1, 6),
    }
    extras = dice.sample(tuple(EXTRAS), dice.choice((0, 0, 1, 1, 2, 3)))
    for name in extras:
        body |= EXTRAS[name](dice)
    return body


def _schema(dice: Random) -> dict[str, Any]:
    schema = {"name": "x", "schema": random_schema(dice)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _structured(dice: Random) -> dict[str, Any]:
    form = dice.choice(("regex", "grammar", "choice", "json"))
    value = {
        "regex": random_regex,
        "grammar": random_grammar,
        "choice": lambda dice: [dice.choice(TEXTS) for _ in range(dice.randint(0, 4))],
        "json": random_schema,
    }[form](dice)
    return {"structured_outputs": {form: value}}


def _tools(dice: Random) -> dict[str, Any]:
    parameters = random_schema(dice) if dice.random() < 0.5 else {"type": "object"}
    function = {"name": dice.choice(("f", "get price", "é")), "parameters": parameters}
    choice = dice.choice(("auto", "required", "none", {"type": "function", "function": function}))
    return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}


def _history(dice: Random) -> dict[str, Any]:
    arguments = dice.choice(('{"a":1}', "{", "[" * 60_000, "null", '{"a":"\\ud800"}', "x" * 70_000))
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]
    asked: list[Any] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": calls},
    ]
    asked.append({"role": "tool", "tool_call_id": "1", "content": dice.choice(TEXTS)})
    return {"messages": asked * dice.choice((1, 1, 30))}


EXTRAS: dict[str, Any] = {
    "schema": _schema,
    "structured": _structured,
    "tools": _tools,
    "history": _history,
    "stream": lambda dice: {
        "stream": True,
        "stream_options": {"include_usage": dice.random() < 0.5},
    },
    "sampling": lambda dice: {
        "temperature": dice.choice((0, 1.5)),
        "top_k": 5,
        "top_p": 0.5,
        "seed": 3,
    },
    "penalties": lambda dice: {"presence_penalty": 2, "frequency_penalty": -2, "min_p": 0.1},
    "stop": lambda dice: {"stop": dice.choice(("a", ["b", "c"], ["\n"]))},
    "parts": lambda dice: {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
    },
    "salt": lambda dice: {"cache_salt": "x", "user": dice.choice(("u", 5, {"a": []}))},
}


def spoil(dice: Random, body: dict[str, Any]) -> None:
    """Put an odd value into some field, drop one, or add one."""
    what = dice.randrange(8)
    if what == 0:
        body[dice.choice(UNKNOWN)] = deepcopy(dice.choice(ODD))
    elif what <= 3:
        body[dice.choice(tuple(ChatRequest.model_fields))] = deepcopy(dice.choice(ODD))
    elif what == 4:
        body.pop(dice.choice(tuple(body)), None)
    else:
        _spoil_inside(dice, body)


def _spoil_inside(dice: Random, body: Any) -> None:
    here: Any = body
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return
        key = dice.choice(keys)
        if not isinstance(here[key], dict | list) or dice.random() < 0.2:
            here[key] = deepcopy(dice.choice(ODD))
            return
        here = here[key]


def written(value: Any, dice: Random) -> str:
    """JSON, with keys that stand twice now and then."""
    if isinstance(value, Verbatim):
        return value.text
    if isinstance(value, list):
        return f"[{','.join(written(one, dice) for one in value)}]"
    if isinstance(value, dict):
        pairs = [f"{json.dumps(key)}:{written(one, dice)}" for key, one in value.items()]
        if pairs and dice.random() < 0.02:
            pairs.append(dice.choice(pairs))
        return "{" + ",".join(pairs) + "}"
    return json.dumps(value, ensure_ascii=dice.random() < 0.5)


def spoiled_bytes(dice: Random, body: bytes) -> bytes:
    """Cut, prolonged or changed in places, or in another encoding."""
    match dice.randrange(6):
        case 0:
            return body[: dice.randrange(len(body) + 1)]
        case 1:
            return body + dice.choice((b"}", b"\x00" * 9, b"{}", b" " * 70_000, body))
        case 2:
            return body.decode("utf-8", "replace").encode(
                dice.choice(("utf-16", "utf-32", "utf-8-sig"))
            )
        case 3:
            return dice.randbytes(dice.choice((1, 50, 5_000)))
    changed = bytearray(body)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(changed) + 1)
        piece = dice.choice(
            (b'"', b"{", b"]", b"\xff", b"9" * 30, b"null", b"-", b"\x00", b"", b"\\")
        )
        changed[at : at + dice.randint(0, 2)] = piece
    return bytes(changed)


def large_bodies() -> Iterator[bytes]:
    """Bodies near and over the limit, and what a template or tokenizer would work on for long."""
    for text in ("a" * 3_900_000, "word " * 700_000, "\U0001f600" * 900_000, "\\u0000" * 600_000):
        yield (
            json.dumps({**GOOD, "messages": [{"role": "user", "content": "?"}]})
            .replace("?", text)
            .encode()
        )
    yield json.dumps({**GOOD, "messages": GOOD["messages"] * 4_096}).encode()  # type: ignore[operator]
    yield json.dumps({**GOOD, "stop": ["x" * 1_000_000]}).encode()
    yield json.dumps({**GOOD, "metadata": ["x"] * 1_000_000}).encode()
    yield b'{"a":' * 900_000
    yield b"[" * 7_900_000
    yield b" " * 9_000_000
    yield json.dumps({**GOOD, "k": "x" * 8_300_000}).encode()
