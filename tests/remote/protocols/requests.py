"""Requests of every shape, as each protocol writes them."""

from dataclasses import replace

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.engines.engine_kind import engine_kind
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import CallMade, Close, Open, ResultOf, Text, ToolSchema
from agentrt.protocol.backend import GenerateRequest, MessagePrompt
from agentrt.remote.body import build_request, forms_of
from agentrt.remote.constraints.constraint_dialects import dialects_named
from agentrt.remote.protocols import WIRE_PROTOCOLS
from agentrt.remote.remote_server import MAY_BE_FIXED, RemoteServer, field_names

PRICE = ToolSchema(
    "price",
    "Price of a stock.",
    {"type": "object", "properties": {"symbol": {"type": "string"}}, "required": ["symbol"]},
)
NEWS = ToolSchema("news", "", {"type": "object", "properties": {}})

SYSTEM = (Open("system"), Text("Be brief."), Close())
USER = (Open("user"), Text("Price of "), Text("IBM?"), Close())
CALLED = (
    *(Open("assistant"), Text("See."), CallMade("c1", "price", '{"symbol":"IBM"}')),
    *(CallMade("c2", "news", "{}"), Close()),
)
RESULTS = (
    *(Open("tool"), ResultOf("c1", "price"), Text("120.5"), Close()),
    *(Open("tool"), ResultOf("c2", "news"), Close()),
)
ANSWERED = (Open("assistant"), Text("It is 120.5."), Close())
CHATS = {
    "a question": (*SYSTEM, *USER),
    "no system text": USER,
    "system text alone": SYSTEM,
    "results": (*SYSTEM, *USER, *CALLED, *RESULTS),
    "behind results": (*SYSTEM, *USER, *CALLED, *RESULTS, *ANSWERED, *USER),
    "twice in a row": (*USER, *SYSTEM, *USER),
}
SPECS = {
    "free": None,
    "object": ConstraintSpec(
        "json",
        '{"type":"object","properties":{"n":{"type":"integer","minimum":1}},'
        '"required":[],"additionalProperties":false}',
    ),
    "integer": ConstraintSpec("json", '{"type":"integer"}'),
    "choice": ConstraintSpec("choice", options=("yes", "no")),
    "calls": ConstraintSpec("calls", tools=(PRICE, NEWS), max_calls=3),
    "one call": ConstraintSpec("calls", tools=(PRICE,), max_calls=1),
    "step": ConstraintSpec("calls", '{"type":"integer"}', tools=(PRICE, NEWS), max_calls=2),
    "text": ConstraintSpec("calls", tools=(PRICE,), min_calls=0, text=True),
}
KINDS = {
    "chat_completions": ("openai", ""),
    "responses": ("openai", "responses"),
    "messages": ("anthropic", ""),
}


def server_of(protocol):
    """The provider's own server, as its kind describes it."""
    kind = engine_kind(*KINDS[protocol])
    proven = {name: one.dialects for name, one in kind.constraints.items()}
    return RemoteServer(
        "http://here/v1",
        "m",
        fields=field_names(kind),
        proven=dialects_named(proven),
        fixed=frozenset(MAY_BE_FIXED) - kind.fields.keys(),
        takes_bounds=kind.takes_bounds,
        protocol=WIRE_PROTOCOLS[kind.protocol],
    )


def request(segments=USER, tools=(), spec=None, **sampling):
    """A request for a generation."""
    return GenerateRequest(
        request_id=RequestId(1),
        run_id=RunId("0" * 16),
        node_id=NodeId("n"),
        site="",
        prompt=MessagePrompt(segments, tools),
        sampling=SamplingParams(**sampling),
        constraint=spec,
    )


def bodies(protocol):
    """Bodies by name: each chat with each constraint, in all of its forms."""
    server = server_of(protocol)
    for chat, segments in CHATS.items():
        for output, spec in SPECS.items():
            tools = (PRICE, NEWS) if spec is not None and spec.kind == "calls" else ()
            asked = request(segments, tools, spec, top_p=0.9)
            for form in forms_of(asked, server):
                name = f"{chat}, {output}, {'no form' if form is None else form.name}"
                yield name, build_request(asked, server, form).body


def thinking(tokens, segments=USER, **more):
    """A request with a thinking budget."""
    return replace(request(segments, **more), thinking_tokens=tokens)
