"""Finding out what a server is and what it really enforces.

Every way to ask for a constraint is tried once with something that no model writes on its own.
Only what comes back as asked counts as enforced; a server that takes the field and ignores it
does not get through.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import anyio

from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.errors import AgentrtError, EngineUnavailable, RequestRejected, UsageError
from agentrt.base.segments import ToolSchema
from agentrt.remote.body import Asking, RemoteServer, constrained
from agentrt.remote.chunks import ChunkReader, Compact
from agentrt.remote.constraint_dialects import WAYS, ConstraintDialect
from agentrt.remote.http import Http

Json = dict[str, Any]

PROBE_TOKENS = 96
_WORDS = ("qzx-vy7", "jkw-uu3")
_SCHEMA = {
    "type": "object",
    "properties": {"zq": {"type": "string", "enum": list(_WORDS)}},
    "required": ["zq"],
    "additionalProperties": False,
}
_TOOL = ToolSchema("mark_zq", "Marks a zq.", _SCHEMA)


@dataclass(frozen=True, slots=True)
class ProbeQuestion:
    """Probe request, and the test of a correct answer.

    Attributes:
        spec: The constraint.
        holds: Whether a whole answer obeys it.
        openings: How any such answer begins; what begins otherwise is not waited for.
    """

    spec: ConstraintSpec
    holds: Callable[[str], bool]
    openings: tuple[str, ...]

    def may_hold(self, text: str) -> bool:
        """Whether `text` can still become an answer that holds."""
        begun = text.lstrip()
        return any(one.startswith(begun) or begun.startswith(one) for one in self.openings)


QUESTIONS: dict[ConstraintKind, ProbeQuestion] = {
    "json": ProbeQuestion(
        ConstraintSpec("json", json.dumps(_SCHEMA, separators=(",", ":"))),
        lambda text: _is_zq(_parsed(text)),
        ("{",),
    ),
    "choice": ProbeQuestion(
        ConstraintSpec("choice", options=_WORDS), lambda text: text in _WORDS, _WORDS
    ),
    "regex": ProbeQuestion(
        ConstraintSpec("regex", "qzx-[0-9]{3}"), lambda text: _is_numbered(text), ("qzx-",)
    ),
    "grammar": ProbeQuestion(
        ConstraintSpec("grammar", f'start: "{_WORDS[0]}" | "{_WORDS[1]}"\n'),
        lambda text: text in _WORDS,
        _WORDS,
    ),
    "calls": ProbeQuestion(
        ConstraintSpec("calls", tools=(_TOOL,), max_calls=1),
        lambda text: _is_call(_parsed(text)),
        ("[",),
    ),
}


async def probe(http: Http, model: str | None) -> RemoteServer:
    """Properties of the server at the address.

    Raises:
        EngineUnavailable: Nothing does, or not in the way of OpenAI's API.
        UsageError: The server has several models and none was chosen.
    """
    listed = await _models(http, model)
    entry = _chosen(listed, model, http.url)
    server = RemoteServer(
        where=http.url,
        model=entry["id"],
        family=_FAMILIES.get(str(entry.get("owned_by", "")).lower(), ""),
        window_tokens=_window_tokens(entry),
    )
    server = await _with_limit_field(http, server)
    return replace(server, proven=await _proven(http, server))


async def _models(http: Http, model: str | None) -> list[Json]:
    """Models of the server; empty if it has no list and the caller named a model."""
    try:
        answer = await http.get("/models")
    except AgentrtError as error:
        if model is not None:
            return []
        raise EngineUnavailable(error.message, hint=error.hint) from None
    listed = answer.get("data")
    if not isinstance(listed, list):
        raise EngineUnavailable(
            f"{http.url}/models does not list models",
            hint="Give the address of an OpenAI-compatible server",
        )
    return [entry for entry in listed if isinstance(entry, dict) and "id" in entry]


def _chosen(listed: list[Json], model: str | None, url: str) -> Json:
    names = ", ".join(str(entry["id"]) for entry in listed[:8])
    if model is None:
        if len(listed) == 1:
            return listed[0]
        if listed:
            raise UsageError(f"{url} serves several models ({names})", hint="Choose one by name")
        raise EngineUnavailable(f"{url} serves no model", hint="Load one there, or name one")
    for entry in listed:
        if entry["id"] == model:
            return entry
    if listed:
        raise UsageError(f"{url} does not serve {model!r}", hint=f"It serves {names}")
    return {"id": model}


_FAMILIES = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "agentrt": "vllm"}


def _window_tokens(entry: Json) -> int:
    meta = entry.get("meta") or {}
    found = entry.get("max_model_len") or meta.get("n_ctx") or meta.get("n_ctx_train") or 0
    return int(found)


async def _with_limit_field(http: Http, server: RemoteServer) -> RemoteServer:
    """One short answer: does it answer at all, and what does it call `max_tokens`?"""
    try:
        await _text(http, Asking(_body(server, 1)))
    except RequestRejected as error:
        if "max_completion_tokens" not in error.message:
            raise EngineUnavailable(error.message, hint=error.hint) from None
        server = replace(server, limit_field="max_completion_tokens")
        await _text(http, Asking(_body(server, 1)))
    return server


async def _proven(
    http: Http, server: RemoteServer
) -> dict[ConstraintKind, tuple[ConstraintDialect, ...]]:
    """All ways that the server enforces, asked at the same time."""
    kept: dict[tuple[ConstraintKind, str], bool] = {}

    async def try_(kind: ConstraintKind, way: ConstraintDialect) -> None:
        question = QUESTIONS[kind]
        asked = constrained(_body(server, PROBE_TOKENS), question.spec, way)
        try:
            text = await _text(http, asked, question.may_hold)
        except AgentrtError:
            text = ""  # it refuses the field, which is honest
        kept[kind, way.name] = question.holds(text)

    async with anyio.create_task_group() as tasks:
        for kind, ways in WAYS.items():
            for way in ways:
                tasks.start_soon(try_, kind, way)
    proven = {
        kind: tuple(way for way in ways if kept[kind, way.name]) for kind, ways in WAYS.items()
    }
    return {kind: ways for kind, ways in proven.items() if ways}


def _body(server: RemoteServer, max_tokens: int) -> Json:
    return {
        "model": server.model,
        "messages": [{"role": "user", "content": "Say hello."}],
        server.limit_field: max_tokens,
        "temperature": 0.0,
        "stream": True,
    }


async def _text(http: Http, asked: Asking, goes_on: Callable[[str], bool] | None = None) -> str:
    """Text written by the server, as long as `goes_on` is true."""
    reading, compact, text = ChunkReader(asked.max_calls), Compact(), ""
    async with aclosing(http.events("/chat/completions", asked.body, {})) as chunks:
        async for chunk in chunks:
            more = reading.push(chunk)
            text += compact.push(more) if asked.compact else more
            if reading.full or (goes_on is not None and not goes_on(text)):
                break
    return text + reading.end()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _is_zq(value: Any) -> bool:
    return isinstance(value, dict) and list(value) == ["zq"] and value["zq"] in _WORDS


def _is_call(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], dict):
        return False
    return value[0].get("name") == _TOOL.name and _is_zq(value[0].get("arguments"))


def _is_numbered(text: str) -> bool:
    return len(text) == 7 and text.startswith("qzx-") and text[4:].isdigit()
