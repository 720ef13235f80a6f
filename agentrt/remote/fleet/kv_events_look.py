"""A look at the KV events of one server, from outside of any run."""

from __future__ import annotations

import anyio

from agentrt.base.engines.kv_events import KvEvents
from agentrt.base.errors import NotInstalled
from agentrt.remote.fleet.kv_subscription import KvSubscription, SubscriptionTimes, imported_zmq

LOOK_S = 2.0
"""Time in which events are waited for. A server that computes nothing publishes none."""


async def events_in_words(source: KvEvents, look_s: float = LOOK_S) -> str:
    """Whether events of a server arrive.

    Args:
        source: Where it publishes them.
        look_s: Time for the connection and the first batch, in seconds.
    """
    try:
        imported_zmq()
    except NotInstalled as error:
        return f"cannot be followed: {error}"
    first = anyio.Event()
    times = SubscriptionTimes(join_s=2 * look_s, answer_s=2 * look_s)  # the look ends before
    seen = KvSubscription(source.endpoint, source, lambda events: first.set(), times)
    with anyio.move_on_after(look_s):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(seen.run)
            await first.wait()
            tasks.cancel_scope.cancel()
    if first.is_set():
        return "arrive"
    return (
        "are connected; none has come"
        if seen.is_joined
        else f"do not come: nothing at {source.endpoint}"
    )
