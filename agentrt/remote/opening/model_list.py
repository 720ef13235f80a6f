"""The models that a server lists."""

from __future__ import annotations

import json
from contextlib import aclosing

from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import AgentrtError, EngineUnavailable
from agentrt.remote.http import Http
from agentrt.remote.protocols.answer_shape import Malformed, check_models


async def listed_models(engine: RemoteEngineConfig) -> list[str]:
    """Names of the models at an engine; the one request is free everywhere.

    Raises:
        EngineUnavailable: The server does not answer, or with something else.
        RequestRejected: The server refuses the request, such as for its key.
    """
    async with aclosing(Http(engine)) as http:
        try:
            return [
                str(one["id"]) for one in check_models(await http.get(http.protocol.models_path))
            ]
        except Malformed as error:
            raise EngineUnavailable(
                f"{http.url}/models answers {error}",
                hint="Give the address of an OpenAI-compatible server",
            ) from None


async def names_listed(http: Http) -> tuple[str, ...]:
    """Names of the models at an address, asked once; empty if it has no list, or an odd one."""
    path = ("/v1" if http.url.endswith("/v1") else "") + http.protocol.models_path
    try:
        answer = json.loads(await http.look(path))
        return tuple(str(one["id"]) for one in check_models(answer))
    except (AgentrtError, ValueError, TypeError, AttributeError, RecursionError):
        return ()
