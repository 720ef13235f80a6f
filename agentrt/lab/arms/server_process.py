"""A server of chat completions: started on a free port, halted between its turns, ended."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import httpx

from agentrt.base.record import record
from agentrt.lab.arms.process_group import ProcessGroup
from agentrt.lab.errors import BenchFailed

Json = dict[str, Any]
_LOAD_S = 900.0  # vLLM compiles its model first
_ANSWER_S = 120.0
_QUIT_S = 20.0
_POLL_S = 0.05


@record
class ServerPlan:
    """How to start a server, and what its clients have to send.

    Attributes:
        kind: Kind of the server, such as a key of `SERVERS`.
        variant: Difference from other plans of that kind.
        command: Command line of its process; `{port}` stands for the port.
        model: Name of its model in requests.
        body: Fields of every request, which force lengths and keep prompts.
        form_body: Fields that hold an answer to a pattern, with `{pattern}` for it; {} if the
            server takes none, or gains nothing by one.
        width: Most requests that a client has under way at once; 0 for no limit.
        streams_what_may_end: True if the server notices a client that leaves only by a broken
            stream.
        env: Variables added to its environment.
        headers: Headers of every request.
        about: Further facts for the result, such as its version.
        counters: Names of its counters at `/metrics`, by ours (`prompt_tokens`, `steps`), each with
            the labels that it must have; {} if it has none.
        health: Path that answers 200 once it serves.
    """

    kind: str
    variant: str
    command: tuple[str, ...]
    model: str
    body: Mapping[str, Any]
    form_body: Mapping[str, Any] = field(default_factory=dict)
    width: int = 0
    streams_what_may_end: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, str] = field(default_factory=dict)
    health: str = "/health"

    @property
    def name(self) -> str:
        """Name in messages and tables."""
        return f"{self.kind} {self.variant}".strip()


class ServerProcess(ProcessGroup):
    """A server that runs and has loaded its model.

    Args:
        plan: How to start it.

    Raises:
        BenchFailed: The server does not start.
    """

    def __init__(self, plan: ServerPlan) -> None:
        self.plan = plan
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = str(listener.getsockname()[1])
        self._http = httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            timeout=_ANSWER_S,
            headers=dict(plan.headers),
            trust_env=False,  # no proxy between this process and a server on this machine
        )
        super().__init__([part.replace("{port}", port) for part in plan.command], plan.env)
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Address of its API, such as `http://127.0.0.1:8123/v1`."""
        return f"{self._http.base_url}/v1"

    @property
    def groups(self) -> tuple[int, ...]:
        """Id of its group of processes."""
        return (self.process.pid,)

    @property
    def about(self) -> Json:
        """Command, environment and request fields, for the result."""
        told = ("kind", "variant", "command", "env", "body", "form_body", "width")
        return {name: getattr(self.plan, name) for name in told} | dict(self.plan.about)

    def complete(self, messages: Sequence[Mapping[str, str]], tokens: int) -> Json:
        """Send one chat completion as clients do; returns the whole answer.

        Raises:
            BenchFailed: The server refused it.
        """
        body = {"model": self.plan.model, "messages": list(messages), "max_tokens": tokens}
        with self.running():
            return self._post("/v1/chat/completions", {**body, **self.plan.body})

    def counts(self) -> dict[str, int]:
        """Counts of the server since its start, by our names; {} if it counts nothing.

        Raises:
            BenchFailed: The server does not have the counters of its plan.
        """
        wanted = self.plan.counters
        if not wanted:
            return {}
        with self.running():
            try:
                text = self._http.get("/metrics").text
            except httpx.TransportError as error:
                raise BenchFailed(f"{self.plan.name}: {error}: {self.last_words()}") from None
        try:
            return {name: counted(text, theirs) for name, theirs in wanted.items()}
        except KeyError as error:
            raise BenchFailed(f"{self.plan.name} has no counter {error} at /metrics") from None

    def close(self, patience_s: float = _QUIT_S) -> None:
        """End the server. Idempotent."""
        self.resume()
        if self.is_running:
            self.process.terminate()
        super().close(patience_s)
        self._http.close()

    def _wait_until_ready(self) -> None:
        """Wait for its health check, then for one completion, which loads the rest of it."""
        ends_at = time.monotonic() + _LOAD_S
        while not self._is_healthy():
            if not self.is_running:
                code = self.process.returncode
                raise BenchFailed(f"{self.plan.name} ended with {code}: {self.last_words()}")
            if time.monotonic() > ends_at:
                raise BenchFailed(f"{self.plan.name} is not ready: {self.last_words()}")
            time.sleep(_POLL_S)
        self.complete([{"role": "user", "content": "a"}], 1)

    def _is_healthy(self) -> bool:
        try:
            return self._http.get(self.plan.health, timeout=5.0).status_code == 200
        except httpx.TransportError:
            return False

    def _post(self, path: str, body: Json) -> Json:
        try:
            response = self._http.post(path, json=body)
        except httpx.TransportError as error:
            raise BenchFailed(f"{self.plan.name}: {error}: {self.last_words()}") from None
        if response.status_code != 200:
            said = response.text[:300]
            raise BenchFailed(f"{self.plan.name} answered {response.status_code}: {said}")
        found: Json = response.json()
        return found


def counted(metrics: str, counter: str) -> int:
    """The value of a counter in a text of Prometheus, summed over all labels that are not named.

    Args:
        metrics: The text.
        counter: Name of the counter, with labels as `name{one="value"}` if some are wanted.

    Raises:
        KeyError: There is none.

    Example:
        >>> counted('steps{engine="0"} 2.0', "steps")
        2
    """
    name, labels = _split(counter)
    samples = (line.rpartition(" ") for line in metrics.splitlines() if not line.startswith("#"))
    parsed = ((*_split(key), float(value)) for key, _, value in samples if key)
    found = [value for known, has, value in parsed if known == name and labels <= has]
    if not found:
        raise KeyError(counter)
    return int(sum(found))


def _split(counter: str) -> tuple[str, set[str]]:
    name, _, labels = counter.strip().removesuffix("}").partition("{")
    return name, {label for label in labels.split(",") if label}
