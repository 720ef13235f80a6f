"""vLLM's completions of token ids over the same engine: `/v1/completions` and `/tokenize`.

The ids of an output have the token that ends it, as vLLM's do. A structural tag is held as the
grammar that it stands for. Log-probabilities name tokens by their ids, and have the token itself
among, or behind, as many alternatives as are asked for; what is impossible has -9999.
"""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tokenizers import Tokenizer

from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.prompt import Codec
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import Delta, End, TokenLogprob
from agentrt.structured.json_schema.json_grammar import json_part
from agentrt.structured.json_schema.lark_text import quoted
from tests.remote import strict_completions

Json = dict[str, Any]
CUT_AFTER = 3
LONG_TOKENS = 100
MASKED = 7
KNOWN = ("temperature", "top_p", "top_k", "min_p", "seed", "repetition_penalty", "ignore_eos")


class Answering(Protocol):
    """The engine behind the front."""

    codec: Codec
    seen: list[Json]

    def answer_to(self, request: GenerateRequest) -> AsyncIterator[Delta | End]:
        """The events of one generation."""
        ...


def request_of(body: Json) -> GenerateRequest:
    given = {key: body[key] for key in KNOWN if key in body}
    return GenerateRequest(
        request_id=RequestId(0),
        run_id=RunId("0" * 16),
        node_id=NodeId("served"),
        site="",
        prompt=TokenPrompt(tuple(body["prompt"])),
        sampling=SamplingParams(
            max_tokens=body.get("max_tokens", 16),
            stop=tuple(body.get("stop") or ()),
            logprobs=body.get("logprobs", 0),
            **given,
        ),
        constraint=constraint_of(body),
        cache_salt=body.get("cache_salt", ""),
    )


def constraint_of(body: Json) -> ConstraintSpec | None:
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        schema = wanted["json_schema"]["schema"]
        return ConstraintSpec("json", json.dumps(schema, separators=(",", ":")))
    if wanted.get("type") == "structural_tag":
        return ConstraintSpec("grammar", lark_of(wanted["format"]))
    structured = body.get("structured_outputs") or {}
    kinds: tuple[ConstraintKind, ...] = ("regex", "grammar")
    for kind in kinds:
        if kind in structured:
            return ConstraintSpec(kind, structured[kind])
    if "choice" in structured:
        return ConstraintSpec("choice", options=tuple(structured["choice"]))
    return None


def lark_of(tag: Json) -> str:
    """The grammar of a structural tag."""
    rules: list[str] = []

    def expression(one: Json) -> str:
        match one["type"]:
            case "const_string":
                return quoted(one["value"])
            case "token":
                return f"<[{one['token']}]>"
            case "sequence":
                return "(" + " ".join(map(expression, one["elements"])) + ")"
            case "or":
                return "(" + " | ".join(map(expression, one["elements"])) + ")"
            case "repeat":
                return f"({expression(one['content'])}){{{one['min']},{one['max']}}}"
            case "json_schema":
                part = json_part(one["json_schema"], f"s{len(rules)}_")
                rules.extend(part.rules)
                return part.expression
        raise AssertionError(f"no format of a structural tag: {one}")

    start = f"start: {expression(tag)}"
    return "\n".join([start, *rules]) + "\n"


async def chunks(serving: Answering, body: Json) -> AsyncIterator[Json]:
    """The chunks of an answer."""
    end_id = serving.codec.vocab.eos_ids[0]
    async for part in serving.answer_to(request_of(body)):
        if isinstance(part, Delta):
            yield chunk(part.text, list(part.token_ids), part.logprobs)
            continue
        ended = part.reason == "stop" and not part.stopped_by
        last = (TokenLogprob(end_id, -0.5, ((end_id, -0.5),)),) if body.get("logprobs") else ()
        token_ids = [end_id] if ended else []
        yield chunk("", token_ids, last[:ended], part.reason, part.stopped_by or None)
        usage = {
            "prompt_tokens": part.ledger.prompt_tokens,
            "completion_tokens": part.ledger.output_tokens + ended,
            "prompt_tokens_details": {"cached_tokens": part.ledger.cached_tokens},
        }
        yield {"choices": [], "usage": usage}


def chunk(
    text: str,
    token_ids: list[int],
    logprobs: Sequence[TokenLogprob],
    reason: str | None = None,
    stop: str | None = None,
) -> Json:
    choice = {"index": 0, "text": text, "token_ids": token_ids, "finish_reason": reason}
    choice |= {"stop_reason": stop, "logprobs": logprobs_of(logprobs) if logprobs else None}
    return {"object": "text_completion", "choices": [choice]}


def logprobs_of(entries: Sequence[TokenLogprob]) -> Json:
    return {
        "tokens": [f"token_id:{one.token_id}" for one in entries],
        "token_logprobs": [one.logprob for one in entries],
        "top_logprobs": [
            {
                f"token_id:{token_id}": logprob
                for token_id, logprob in ((one.token_id, one.logprob), *one.top, (MASKED, -9999.0))
            }
            for one in entries
        ],
        "text_offset": [0] * len(entries),
    }


async def stream(serving: Answering, body: Json) -> AsyncIterator[str]:
    """The events of an answer; `tiny-cut` cuts a long one off the first time it is asked for."""
    is_first = [one["body"] for one in serving.seen].count(body) == 1
    cuts = is_first and body["model"] == "tiny-cut" and body.get("max_tokens", 0) > LONG_TOKENS
    sent = 0
    async for one in chunks(serving, body):
        yield f"data: {json.dumps(one)}\n\n"
        sent += 1
        if cuts and sent == CUT_AFTER:
            raise ConnectionResetError("cut on purpose")
    yield "data: [DONE]\n\n"


def id_routes(serving: Answering) -> list[Route]:
    """The routes."""
    tokenizer = Tokenizer.from_file(str(serving.codec.path / "tokenizer.json"))

    async def completions(request: Request) -> Response:
        body = await request.json()
        serving.seen.append({"body": body, "headers": dict(request.headers)})
        wrong = strict_completions.fault(body)
        if wrong is not None:
            return JSONResponse({"error": {"message": wrong, "code": 400}}, 400)
        return StreamingResponse(stream(serving, body), media_type="text/event-stream")

    async def tokenize(request: Request) -> Response:
        body = await request.json()
        found = tokenizer.encode(body["prompt"], add_special_tokens=body["add_special_tokens"])
        return JSONResponse({"tokens": found.ids, "count": len(found.ids), "max_model_len": 4096})

    return [
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/tokenize", tokenize, methods=["POST"]),
    ]
