"""Probing a server: what it is, and which constraints it really enforces.

Every dialect is tried once with a constraint that no model satisfies by chance. It counts as
enforced only if the answer obeys; a server that accepts the field and ignores it fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import anyio

from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.errors import AgentrtError, EngineUnavailable, RequestRejected, UsageError
from agentrt.base.record import record
from agentrt.base.segments import ToolSchema
from agentrt.remote.answers.answer_reader import AnswerReader
from agentrt.remote.body import SentRequest, constrained
from agentrt.remote.constraints.constraint_dialects import DIALECTS, ConstraintDialect
from agentrt.remote.constraints.constraint_forms import ConstraintForm
from agentrt.remote.http import Http
from agentrt.remote.protocols import WireRequest
from agentrt.remote.protocols.answer_shape import Malformed, check_models
from agentrt.remote.remote_server import RemoteServer

Json = dict[str, Any]

PROBE_TOKENS = 512
_WORDS = ("qzx-vy7", "jkw-uu3")
_SCHEMA = {
    "type": "object",
    "properties": {"zq": {"type": "string", "enum": list(_WORDS)}},
    "required": ["zq"],
    "additionalProperties": False,
}
_TOOL = ToolSchema("mark_zq", "Marks a zq.", _SCHEMA)


@record
class ProbeQuestion:
    """A probe request with the test of its answer.

    Attributes:
        spec: The constraint.
        holds: Whether a whole answer obeys it.
        openings: Possible beginnings of an answer; any other is not waited for.
    """

    spec: ConstraintSpec
    holds: Callable[[str], bool]
    openings: tuple[str, ...]

    def may_hold(self, text: str) -> bool:
        """Whether `text` can still become an answer that obeys."""
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


async def identify(http: Http, model: str | None) -> RemoteServer:
    """The server at the address, as far as its list of models shows it. The request is free.

    Raises:
        EngineUnavailable: No server answers, or not with OpenAI's API.
        UsageError: The server has several models and none was chosen.
    """
    listed = await _models(http, model)
    entry = _chosen(listed, model, http.url)
    server = RemoteServer(
        where=http.url,
        model=entry["id"],
        window_tokens=_window_tokens(entry),
        protocol=http.protocol,
    )
    return server.of_family(_FAMILIES.get(str(entry.get("owned_by", "")).lower(), ""))


async def probe_features(http: Http, server: RemoteServer) -> RemoteServer:
    """The server with the features that it shows when they are asked for.

    Raises:
        EngineUnavailable: The server takes no request.
    """
    server = await _with_parameters(http, server)
    return replace(server, proven=await _proven(http, server))


async def _models(http: Http, model: str | None) -> list[Json]:
    """Models of the server; empty if it has no list and the caller named a model."""
    try:
        answer = await http.get(http.protocol.models_path)
    except AgentrtError as error:
        if model is not None:
            return []
        raise EngineUnavailable(error.message, hint=error.hint) from None
    try:
        return check_models(answer)
    except Malformed as error:
        raise EngineUnavailable(
            f"{http.url}/models answers {error}",
            hint="Give the address of an OpenAI-compatible server",
        ) from None


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
    return entry.get("max_model_len") or meta.get("n_ctx") or meta.get("n_ctx_train") or 0


async def _with_parameters(http: Http, server: RemoteServer) -> RemoteServer:
    """Send one short request, to find whether it answers and which parameters it takes."""
    while True:
        try:
            await _text(http, SentRequest(server.protocol, _hello(server, 1)))
        except RequestRejected as error:
            known = server.after_refusal(error.message)
            if known is None:
                raise EngineUnavailable(error.message, hint=error.hint) from None
            server = known
        else:
            return server


async def _proven(
    http: Http, server: RemoteServer
) -> dict[ConstraintKind, tuple[ConstraintDialect, ...]]:
    """All dialects that the server enforces, probed concurrently."""
    enforced: dict[tuple[ConstraintKind, str], bool] = {}
    spoken = {
        kind: [one for one in dialects if one.protocol in ("", server.protocol.name)]
        for kind, dialects in DIALECTS.items()
    }

    async def try_dialect(kind: ConstraintKind, dialect: ConstraintDialect) -> None:
        question = QUESTIONS[kind]
        form = ConstraintForm(dialect.name, dialect.output(question.spec), enforced=True)
        hello = _hello(server, PROBE_TOKENS)
        sent = constrained(server.protocol, hello, question.spec, form)
        try:
            text = await _text(http, sent, question.may_hold)
        except AgentrtError:
            text = ""  # it refuses the field
        enforced[kind, dialect.name] = question.holds(text)

    async with anyio.create_task_group() as tasks:
        for kind, dialects in spoken.items():
            for dialect in dialects:
                tasks.start_soon(try_dialect, kind, dialect)
    proven = {
        kind: tuple(one for one in dialects if enforced[kind, one.name])
        for kind, dialects in spoken.items()
    }
    return {kind: dialects for kind, dialects in proven.items() if dialects}


def _hello(server: RemoteServer, max_tokens: int) -> WireRequest:
    given = {"max_tokens": max_tokens, "temperature": 0.0}
    return WireRequest(
        server.model,
        [{"role": "user", "content": "Say hello."}],
        {server.fields[name]: value for name, value in given.items() if name not in server.fixed},
    )


async def _text(http: Http, sent: SentRequest, go_on: Callable[[str], bool] | None = None) -> str:
    """Text written by the server, as long as `go_on` is true for it."""
    reader, text = AnswerReader(sent.max_calls), ""
    retries = http.retries(http.limits.opening)
    async with aclosing(http.answer(sent.protocol, sent.body, {}, retries)) as events:
        async for parts in events:
            text += reader.feed_parts(parts)
            if reader.full or (go_on is not None and not go_on(text)):
                break
    return text + reader.close()


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
