"""Hints to a server that has a scheduler of its own: what a request is worth, in its words.

They are fixed at the moment at which a request is sent, since no server lets them be changed. What
is held back here is ordered here; they order what waits at the server all the same: behind other
clients' requests, and after it has preempted some.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentrt.base.engines.engine_kind import KindHint
from agentrt.protocol.backend import GenerateRequest
from agentrt.scheduler.order.order import Order
from agentrt.scheduler.order.wire_priority import LAST_PRIORITY, wire_priority


def hint_fields(
    request: GenerateRequest, hints: Iterable[KindHint], order: Order
) -> dict[str, Any]:
    """Fields of a request for the hints that its server takes.

    Args:
        request: The request, with its latest scheduling info.
        hints: Hints that the server takes.
        order: Order of waiting requests.
    """
    found: dict[str, Any] = {}
    for hint in hints:
        if hint.name == "session":
            found[hint.field] = request.run_id
        elif (value := _priority(request, order)) is not None:
            found[hint.field] = -value if hint.first == "largest" else value
    return found


def _priority(request: GenerateRequest, order: Order) -> int | None:
    if request.ahead:
        return LAST_PRIORITY
    return None if request.info is None else wire_priority(order, request.info)
