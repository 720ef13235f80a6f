"""Where a server publishes the events of its KV cache."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from agentrt.base.errors import UsageError

_ENDPOINT = re.compile(r"tcp://(\*|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}|ipc://.+")
_ANY_HOST = "tcp://*:"


@dataclass(frozen=True, slots=True)
class KvEvents:
    """Where a server publishes the events of its KV cache, as its own settings say.

    Attributes:
        endpoint: ZeroMQ address of the events, `tcp://HOST:PORT` or `ipc://PATH`. The host `*`
            stands for that of the server.
        replay: Address at which events that were missed are asked for, likewise; "" if there is
            none.
        topic: Beginning of the topics that count.

    Raises:
        UsageError: An address is malformed.

    Example:
        >>> KvEvents("tcp://*:5557").at("http://gpu7:8000/v1").endpoint
        'tcp://gpu7:5557'
    """

    endpoint: str
    replay: str = ""
    topic: str = ""

    def __post_init__(self) -> None:
        for name, value in (("endpoint", self.endpoint), ("replay", self.replay)):
            if (value or name == "endpoint") and not _ENDPOINT.fullmatch(value):
                raise UsageError(
                    f"kv_events: {name}: {value!r} is no address of events",
                    hint=f'give {name} = "tcp://*:5557", as the server has it',
                )

    def at(self, url: str) -> KvEvents:
        """The same with the host of a server for `*`.

        Args:
            url: Base address of the server.
        """
        host = urlsplit(url).hostname or ""
        known = f"tcp://[{host}]:" if ":" in host else f"tcp://{host}:"
        endpoint, replay = (
            known + one.removeprefix(_ANY_HOST) if one.startswith(_ANY_HOST) else one
            for one in (self.endpoint, self.replay)
        )
        return replace(self, endpoint=endpoint, replay=replay)
