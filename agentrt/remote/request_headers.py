"""Headers of all requests to one engine: its key, and what its settings add."""

from __future__ import annotations

from collections.abc import Mapping

from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.key_reference import key_name
from agentrt.base.record import record
from agentrt.remote.protocols import WIRE_PROTOCOLS, WireProtocol

MIN_SECRET_CHARACTERS = 4


@record
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
        """The headers that the protocol and the settings of an engine ask for.

        Args:
            engine: Settings of the engine.
            environment: Variables that references name.

        Raises:
            UsageError: A variable is empty, its value fits no header, or the protocol has no header
                for a setting.
        """
        protocol = WIRE_PROTOCOLS[engine.described.protocol]
        headers = dict(protocol.headers)
        secrets: list[str] = []

        def secret(reference: str, option: str) -> str:
            value = _value(reference, option, environment)
            # A text as short as this stands in messages by chance.
            if len(value) >= MIN_SECRET_CHARACTERS:
                secrets.append(value)
            return value

        of_engine = f" of engine {engine.name}" if engine.name else ""
        if engine.key is not None:
            name, value = protocol.key_header(secret(engine.key, f"the key{of_engine}"))
            headers[name] = value
        for setting in ("organisation", "project"):
            if value := getattr(engine, setting):
                headers[_account_header(setting, protocol)] = value
        for name, value in engine.headers.items():
            is_reference = value.startswith("env:")
            headers[name] = secret(value, f"header {name}{of_engine}") if is_reference else value
        return cls(headers, tuple(secrets))


def _account_header(setting: str, protocol: WireProtocol) -> str:
    if setting not in protocol.account_headers:
        raise UsageError(
            f"{setting}: no header of the protocol {protocol.name!r} carries it",
            hint="Leave it out: the key alone says which account is charged",
        )
    return protocol.account_headers[setting]


def _value(reference: str, option: str, environment: Mapping[str, str]) -> str:
    value = environment[key_name(reference, option, environment)]
    if not value.isascii() or not value.isprintable():
        raise UsageError(
            f"{option}: its variable has a character that no header takes",
            hint="Look for a line end or a quotation mark in it",
        )
    return value
