"""The model of a fleet: servers whose models differ are no fleet, so each is asked what it lists.

A seed, a prefix and the continuation of a text that broke off mean something at one model only. A
server may be started again with another one, so it is asked each time that it comes back.
"""

from __future__ import annotations

import anyio

from agentrt.base.errors import UsageError
from agentrt.remote.fleet.fleet_worker import FleetWorker

_HINT = (
    "Start the same model at both, or take one out of the fleet; if it is one model by two names, "
    "list the servers as members, each with its own model"
)


class FleetModel:
    """The model that the servers of a fleet serve.

    A list that is empty or cannot be read leaves a server's model unknown, and unknown ones pass.

    Args:
        answer_s: Time that a list may take.
    """

    def __init__(self, answer_s: float) -> None:
        self._answer_s = answer_s
        self._first: FleetWorker | None = None
        self._listed: dict[str, tuple[str, ...]] = {}

    async def fault(self, worker: FleetWorker) -> UsageError | None:
        """Ask a server that has started or has come back for its model.

        Args:
            worker: The server.

        Returns:
            The error that names it and another one if their models differ; else None.
        """
        is_new = worker.name not in self._listed
        if is_new and not worker.model:
            names: tuple[str, ...] = (worker.remote.server.model,)  # its opening has read the list
        else:
            names = ()
            with anyio.move_on_after(self._answer_s):
                names = await worker.remote.listed_models()
        if not names:
            return None
        return self._changed(worker, names) or self._differs(worker)

    def _changed(self, worker: FleetWorker, names: tuple[str, ...]) -> UsageError | None:
        """The error of a server that does not list the model of its requests."""
        before = self._listed.setdefault(worker.name, names)
        model = worker.remote.server.model
        # llama-server lists a path, whatever requests say: what counts is that it stays the same.
        lists_path = bool(worker.model) and worker.remote.server.family == "llamacpp"
        if model in names or (lists_path and before == names):
            return None
        listed = ", ".join(map(repr, names))
        others = [other for other in self._listed if other != worker.name]
        beside = f", as {others[0]} does" if others else ""
        if lists_path:
            model = ", ".join(before)
        return UsageError(f"{worker.name} serves {listed}, not {model!r}{beside}", hint=_HINT)

    def _differs(self, worker: FleetWorker) -> UsageError | None:
        """The error of a server whose model is not that of the first one that was open."""
        first = self._first = self._first or worker
        if worker.model and first.model:
            return None  # the settings name the model of each
        ours, theirs = worker.remote.server.model, first.remote.server.model
        if _file_name(ours) == _file_name(theirs):
            return None
        return UsageError(
            f"{worker.name} serves {ours!r}, and {first.name} {theirs!r}: a fleet has one model",
            hint=_HINT,
        )


def _file_name(model: str) -> str:
    """A name without the folder of the file that it is, which differs between machines."""
    return model.rsplit("/", 1)[-1] if model.endswith(".gguf") else model
