"""The opening of a server: known kinds need no probe, unknown ones one in a week."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentrt.base.engines.engine_kind import EngineKind
from agentrt.base.engines.kind_tokens import KindTokens
from agentrt.remote.constraints.constraint_dialects import dialects_named
from agentrt.remote.http import Http
from agentrt.remote.opening.capability_store import CapabilityStore
from agentrt.remote.opening.probe import identify, probe_features
from agentrt.remote.opening.tokenizer_check import compare_tokenizer
from agentrt.remote.remote_server import MAY_BE_FIXED, RemoteServer, field_names

if TYPE_CHECKING:
    from agentrt.prompt import Codec


async def open_server(
    http: Http, model: str | None, kind: EngineKind, store: CapabilityStore | None
) -> RemoteServer:
    """Properties of the server at the address.

    Args:
        http: The address.
        model: Name of the model; None takes the only one.
        kind: Kind of the server.
        store: Capabilities of servers of unknown kinds, or None.

    Raises:
        EngineUnavailable: No server answers, or not with OpenAI's API.
        UsageError: The server has several models and none was chosen.
    """
    if not kind.is_probed:
        return await _known(http, model, kind)
    server = await identify(http, model)
    kept = store.load(server) if store is not None else None
    if kept is not None:
        return kept
    server = await probe_features(http, server)
    if store is not None:
        store.save(server)
    return server


async def with_token_ids(
    http: Http, server: RemoteServer, tokens: KindTokens, codec: Codec
) -> RemoteServer:
    """The server as one that prompts are sent to as token ids.

    Raises:
        UsageError: The tokenizer there is not that of the codec.
    """
    dialects = {name: one.dialects for name, one in tokens.constraints.items()}
    return replace(
        server,
        codec=codec,
        tokens=tokens,
        proven=dialects_named(dialects),
        compared=await compare_tokenizer(http, server.model, tokens, codec),
    )


async def _known(http: Http, model: str | None, kind: EngineKind) -> RemoteServer:
    """A server as its kind describes it. Its list of models is read only for the model's name."""
    if model is None:
        server = await identify(http, model)
    else:
        server = RemoteServer(where=http.url, model=model)
    proven = dialects_named({name: one.dialects for name, one in kind.constraints.items()})
    fixed = frozenset(name for name in MAY_BE_FIXED if name not in kind.fields)
    return replace(
        server,
        family=kind.family,
        fields=field_names(kind),
        proven=proven,
        fixed=fixed,
        takes_bounds=kind.takes_bounds,
        protocol=http.protocol,
    )
