"""`ListedWindow`: the context length that a server of a known kind lists.

No request needs it, since a server refuses a prompt that is too long with its own numbers. So it is
read beside the first request instead of before it.
"""

from __future__ import annotations

import asyncio
import logging

from agentrt.base.errors import AgentrtError
from agentrt.remote.http import Http
from agentrt.remote.opening.probe import identify
from agentrt.remote.task_ends import end_tasks

_log = logging.getLogger("agentrt")


class ListedWindow:
    """The context length of one model of a server. A list that cannot be read leaves it unknown.

    Args:
        http: The server.
        model: Name of the model.

    Attributes:
        tokens: The context length; 0 as long as it is unknown.
    """

    def __init__(self, http: Http, model: str) -> None:
        self.tokens = 0
        self._http = http
        self._model = model
        self._reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read the list, unless that has begun."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())

    async def read(self) -> None:
        """Read the list and wait for it."""
        self.start()
        assert self._reading is not None
        await asyncio.wait([self._reading])

    async def aclose(self) -> None:
        """End a reading that is under way."""
        if self._reading is not None:
            await end_tasks([self._reading])

    async def _read(self) -> None:
        try:
            server = await identify(self._http, self._model)
        except AgentrtError as error:  # another model is listed: the server decides on requests
            _log.warning("%s; %s", error.message, error.hint)
        else:
            self.tokens = server.window_tokens
