"""Headers of all requests to one engine: its key, and what its settings add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.key_reference import key_name

MIN_SECRET_CHARACTERS = 4


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """Headers with their values.

    Attributes:
        headers: Value of each header.
        secrets: Values that no message repeats.
    """

    headers: Mapping[str, str]
    secrets: tuple[str, ...]

    @classmethod
    def of(cls, engine: RemoteEngineConfig, environment: Mapping[str, str]) -> RequestHeaders:
        """The headers that the settings of an engine ask for.

        Args:
            engine: Settings of the engine.
            environment: Variables that references name.

        Raises:
            UsageError: A variable is empty, or its value fits no header.
        """
        headers: dict[str, str] = {}
        secrets: list[str] = []

        def secret(reference: str, option: str) -> str:
            value = _value(reference, option, environment)
            # A text as short as this stands in messages by chance.
            if len(value) >= MIN_SECRET_CHARACTERS:
                secrets.append(value)
            return value

        of_engine = f" of engine {engine.name}" if engine.name else ""
        if engine.key is not None:
            headers["Authorization"] = f"Bearer {secret(engine.key, f'the key{of_engine}')}"
        if engine.organisation:
            headers["OpenAI-Organization"] = engine.organisation
        if engine.project:
            headers["OpenAI-Project"] = engine.project
        for name, value in engine.headers.items():
            is_reference = value.startswith("env:")
            headers[name] = secret(value, f"header {name}{of_engine}") if is_reference else value
        return cls(headers, tuple(secrets))


def _value(reference: str, option: str, environment: Mapping[str, str]) -> str:
    value = environment[key_name(reference, option, environment)]
    if not value.isascii() or not value.isprintable():
        raise UsageError(
            f"{option}: its variable has a character that no header takes",
            hint="Look for a line end or a quotation mark in it",
        )
    return value
