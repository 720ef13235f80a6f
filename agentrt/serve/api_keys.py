"""API keys: each is a tenant of its own and shares nothing with the others."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentrt.serve.shares import Owner

_CLIENTS_OF_ADDRESS = 64


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that clients bring.

    Attributes:
        name: Name of its tenant, in traces.
        secret: The key itself.
    """

    name: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tenant:
    """The tenant of a request.

    Attributes:
        name: Name for fair share and traces.
        cache_salt: Salt of its prefixes, known to this server alone; "" without keys.
        owner: Owner for turns at the engine: the tenant's key and the client's address and user, or
            the address and the user.
    """

    name: str = ""
    cache_salt: str = field(default="", repr=False)
    owner: Owner = Owner()  # noqa: RUF009  # frozen


def tenant_without_key(peer: str, user: object) -> Tenant:
    """The tenant of a request without a key.

    Args:
        peer: Address of the client.
        user: User that the request names, or anything else. Users of an address share a limited
            number of tenants.
    """
    number = _number(user)
    return Tenant(f"{peer}/{number}" if number else peer, "", Owner(peer, number))


def tenant_with_key(key: Tenant, peer: str, user: object) -> Tenant:
    """The tenant of a key, for a request of one of its clients.

    Args:
        key: The tenant.
        peer: Address of the client.
        user: User that the request names, or anything else.
    """
    return Tenant(key.name, key.cache_salt, Owner(key.name, f"{peer}/{_number(user)}"))


def _number(user: object) -> str:
    """The number of a user among those of an address; "" for none."""
    if not isinstance(user, str) or not user:
        return ""
    return str(_digest(user.encode("utf-8", "replace"))[0] % _CLIENTS_OF_ADDRESS)


class ApiKeys:
    """Keys that are known.

    Args:
        keys: One a tenant.
    """

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._tenants = [
            (_digest(key.secret.encode()), Tenant(key.name, secrets.token_hex(16))) for key in keys
        ]

    def tenant_of(self, authorization: bytes) -> Tenant | None:
        """The tenant of the key that a request brings, or None.

        Digests are compared, all of them, so that the time tells nothing of any key.

        Args:
            authorization: Value of the header.
        """
        scheme, _, token = authorization.partition(b" ")
        digest = _digest(token.strip())
        found = [one for known, one in self._tenants if hmac.compare_digest(digest, known)]
        return found[0] if found and scheme.lower() == b"bearer" else None


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
