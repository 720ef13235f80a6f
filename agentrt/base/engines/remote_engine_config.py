"""Settings of one remote engine, as `agentrt.toml` or Python gives them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal
from urllib.parse import urlsplit

from agentrt.base.engines.engine_kind import (
    ANY_KIND,
    EngineKind,
    KindHint,
    engine_kind,
    kind_names,
)
from agentrt.base.engines.fallback_reason import REASONS, FallbackReason
from agentrt.base.engines.kind_warming import KindWarming
from agentrt.base.engines.kv_events import KvEvents
from agentrt.base.engines.server_limits import check_limit
from agentrt.base.engines.setting_errors import meant
from agentrt.base.errors import UsageError
from agentrt.base.key_reference import check_reference
from agentrt.base.prices import Prices

SECRET_HEADER = re.compile(r"authorization|cookie|key|token|secret", re.IGNORECASE)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_BESIDE_MEMBERS = frozenset(
    {"members", "name", "limits", "fallbacks", "drain", "response_cache", "warm_ahead"}
)
_UNSET: tuple[object, ...] = ("", None, {}, 0, ())
_NOT_TAKEN = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection"}
)


@dataclass(frozen=True, slots=True)
class Fallbacks:
    """Engines that take over requests of another one, by the reason.

    Their own fallbacks are not followed.

    Attributes:
        down: Engines for requests that the engine does not answer, in order.
        context_overflow: Engines for prompts that are too long for it.
        refusal: Engines for requests that the provider's filter or the model refused.
        cooldown_s: Time for which an engine that was down gets no requests.

    Raises:
        UsageError: The cooldown is negative.
    """

    down: tuple[RemoteEngineConfig, ...] = ()
    context_overflow: tuple[RemoteEngineConfig, ...] = ()
    refusal: tuple[RemoteEngineConfig, ...] = ()
    cooldown_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.cooldown_s < float("inf"):
            raise UsageError(
                f"cooldown_s: {self.cooldown_s} is out of range", hint="give seconds, 0 or more"
            )

    def engines(self) -> list[tuple[RemoteEngineConfig, frozenset[FallbackReason]]]:
        """The engines in order, each with the reasons for which it takes requests."""
        found: list[tuple[RemoteEngineConfig, frozenset[FallbackReason]]] = []
        for reason in REASONS:
            for engine in getattr(self, reason):
                known = [one for one, _ in found]
                if engine in known:
                    index = known.index(engine)
                    found[index] = (engine, found[index][1] | {reason})
                else:
                    found.append((engine, frozenset({reason})))
        return found


@dataclass(frozen=True, slots=True)
class FleetMember:
    """A server of a fleet.

    Attributes:
        engine: The server, with its own kind, key and rates; its fallbacks are not followed, and
            its `response_cache` does not count.
        weight: Share of the work, by those of the others.

    Raises:
        UsageError: The weight is not above 0, or the engine is a fleet itself.
    """

    engine: RemoteEngineConfig
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.weight < math.inf:
            raise UsageError(
                f"members: the weight {self.weight:g} is out of range", hint="give 1, 2 or 0.5"
            )
        if self.engine.is_fleet:
            raise UsageError(
                f"members: {self.engine.name or self.engine.url!r} has several addresses itself",
                hint="name engines of one address each",
            )


@dataclass(frozen=True, slots=True)
class RemoteEngineConfig:
    """Settings of a remote engine; pass it as `open_runtime(engine=...)`, or name it in a file.

    Example:
        >>> from agentrt import RemoteEngineConfig
        >>> config = RemoteEngineConfig(kind="vllm", address="http://gpu7:8000", model="qwen")
        >>> config.url
        'http://gpu7:8000/v1'

    Attributes:
        kind: Kind of server, which decides what requests look like; `agentrt engines --kinds` lists
            them. `openai-compatible` fits any server of the API: its features are probed.
        protocol: Wire protocol, for kinds that speak several; "" takes the first of the kind.
        address: `http://host:port`, or with the API's own path; "" takes that of the kind.
        model: Name of the model; "" takes the only one that the server lists.
        tokenizer: Directory with the files of the model's tokenizer and chat template. Prompts are
            sent as token ids then, written here; "" sends messages, which the server writes.
        key: `env:NAME`, the variable that holds the key, or None. It is sent to `address` alone.
        headers: Headers of each request. A value `env:NAME` is that of the variable; headers that
            carry secrets take no other.
        organisation: Organisation that is charged (`OpenAI-Organization`), or "".
        project: Project that is charged (`OpenAI-Project`), or "".
        concurrency: Maximum number of requests in flight; 0 learns it from the load of servers that
            show it, and sets none for others. Fewer are sent while the server answers that it is
            busy.
        priority: Priorities that the server serves first: "smallest", "largest", or "off" to send
            none; "" takes what is usual for its kind.
        requests_per_minute: Rate of requests that is not exceeded; 0 sets none.
        tokens_per_minute: Rate of tokens, prompts and outputs together; 0 sets none.
        limits: Fields of `agentrt.remote.RemoteLimits` that differ from the defaults.
        fallbacks: Engines that take requests which this one cannot serve.
        prices: Prices of the engine; None leaves costs unknown.
        addresses: Addresses of several equal servers, a fleet: these settings hold for each, and
            the key is sent to all of them. `concurrency` and the rates are those of each server.
        members: Other engines that are one fleet, with weights. They keep their own settings; of
            these here only `limits`, `fallbacks`, `drain`, `response_cache` and `warm_ahead` count.
        drain: Addresses of a fleet, or names of its members, that get no new requests.
        kv_events: Where the server publishes the events of its KV cache, for the placement of a
            fleet; None follows none.
        response_cache: Whether generations use the response cache unless they say otherwise.
        warm_ahead: Whether prompts that wait for a value are computed up to there meanwhile, if the
            server has room to spare; see `warming`.
        name: Name for people; "" takes the address.

    Raises:
        UsageError: A setting is malformed; the message names it.
    """

    kind: str = ANY_KIND
    protocol: str = ""
    address: str = ""
    model: str = ""
    tokenizer: str = ""
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    organisation: str = ""
    project: str = ""
    concurrency: int = 0
    priority: Literal["", "off", "smallest", "largest"] = ""
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    limits: Mapping[str, float] = field(default_factory=dict)
    fallbacks: Fallbacks | None = None
    prices: Prices | None = None
    response_cache: bool = False
    name: str = ""
    addresses: tuple[str, ...] = ()
    members: tuple[FleetMember, ...] = ()
    drain: tuple[str, ...] = ()
    kv_events: KvEvents | None = None
    warm_ahead: bool = True

    def __post_init__(self) -> None:
        if self.kind not in kind_names():
            raise UsageError(
                f"kind: {self.kind!r} is no kind of engine", hint=f"give {', '.join(kind_names())}"
            )
        if self.protocol not in ("", *(spoken := engine_kind(self.kind).protocols)):
            raise UsageError(
                f"protocol: an engine of kind {self.kind!r} does not speak {self.protocol!r}",
                hint=f"give {', '.join(spoken)}",
            )
        if self.is_fleet:
            self._check_fleet()
        elif self.drain:
            raise UsageError(
                "drain: an engine of one address has nothing to leave out",
                hint="give addresses or members too",
            )
        elif not self.address and not engine_kind(self.kind).address:
            raise UsageError(
                f"address: an engine of kind {self.kind!r} has none by itself",
                hint='give address = "http://HOST:PORT"',
            )
        else:
            base_url(self.address or engine_kind(self.kind).address, "address: ")
        if self.tokenizer and self.described.tokens is None:
            able = ", ".join(one for one in kind_names() if engine_kind(one).tokens is not None)
            raise UsageError(
                f"tokenizer: an engine of kind {self.kind!r} takes no token ids",
                hint=f"leave it out, or give the kind of the server: {able}",
            )
        if self.kv_events is not None and not self.described.kv_events:
            able = ", ".join(one for one in kind_names() if engine_kind(one).kv_events)
            raise UsageError(
                f"kv_events: an engine of kind {self.kind!r} publishes none",
                hint=f"leave it out, or give the kind of the server: {able}",
            )
        if self.key is not None:
            check_reference(self.key, "key: the value")
        for name, value in self.headers.items():
            check_header(name, value)
        for name in ("concurrency", "requests_per_minute", "tokens_per_minute"):
            if getattr(self, name) < 0:
                raise UsageError(
                    f"{name}: {getattr(self, name)} is negative",
                    hint="give 1 or more, or 0 for none",
                )
        if self.priority not in ("", "off", "smallest", "largest"):
            raise UsageError(
                f"priority: {self.priority!r} is no order of priorities",
                hint='give "smallest", "largest" or "off"',
            )
        for name, limit in self.limits.items():
            check_limit(name, limit, "limits: ")

    @property
    def described(self) -> EngineKind:
        """The kind, as it is spoken to in the protocol of these settings."""
        return engine_kind(self.kind, self.protocol)

    @property
    def hints(self) -> tuple[KindHint, ...]:
        """Hints about requests that the server takes."""
        hints = self.described.hints
        if self.priority == "":
            return hints
        others = tuple(one for one in hints if one.name != "priority")
        if self.priority == "off":
            return others
        return (KindHint("priority", "priority", self.priority), *others)

    def warming(self, *, has_ids: bool) -> KindWarming | None:
        """How the prefix cache of the server is warmed ahead; None if it is not.

        Each request of an engine with prices costs, and rates are kept for requests that are sure
        to be needed.

        Args:
            has_ids: Whether prompts are sent as token ids; else the server has to show its prompts.
        """
        kind = self.described.warming
        if not self.warm_ahead or kind is None or self.prices is not None:
            return None
        is_limited = bool(self.requests_per_minute or self.tokens_per_minute)
        return kind if not is_limited and (has_ids or kind.template_path) else None

    @property
    def url(self) -> str:
        """Base address of the API; those of a fleet with commas between them."""
        if self.is_fleet:
            return ",".join(one.engine.url for one in self.workers)
        return base_url(self.address or engine_kind(self.kind).address)

    @property
    def is_fleet(self) -> bool:
        """Whether it is several servers that serve requests as one."""
        return bool(self.addresses or self.members)

    @property
    def workers(self) -> tuple[FleetMember, ...]:
        """The servers of a fleet, each as an engine of its own; () for any other engine."""
        if self.members:
            return self.members
        return tuple(
            FleetMember(replace(self, address=one, addresses=(), drain=(), fallbacks=None))
            for one in self.addresses
        )

    @property
    def drained_urls(self) -> frozenset[str]:
        """Base addresses of the servers of a fleet that get no new requests."""
        named = {one.engine.name: one.engine.url for one in self.members}
        return frozenset(named[one] if one in named else base_url(one) for one in self.drain)

    def _check_fleet(self) -> None:
        """Check what is of a fleet alone.

        Raises:
            UsageError: An address is malformed or given twice, a setting has no meaning beside
                `members`, or `drain` names no server.
        """
        if self.members:
            for one in fields(self):
                is_set = getattr(self, one.name) not in (*_UNSET, ANY_KIND)
                if is_set and one.name not in _BESIDE_MEMBERS:
                    raise UsageError(
                        f"{one.name}: the members have settings of their own",
                        hint=f"set {one.name} for each engine that members names",
                    )
        elif self.address:
            raise UsageError("address: it stands beside addresses", hint="leave one of them out")
        urls = [base_url(one, "addresses: ") for one in self.addresses]
        urls += [one.engine.url for one in self.members]
        if twice := next((one for one in urls if urls.count(one) > 1), None):
            what = "members" if self.members else "addresses"
            raise UsageError(f"{what}: {twice} stands there twice", hint="give each server once")
        names = [one.engine.name for one in self.members if one.engine.name]
        for drained in self.drain:
            is_address = drained.startswith(("http://", "https://"))
            if (base_url(drained, "drain: ") if is_address else drained) not in (*names, *urls):
                near = meant(drained, [*names, *self.addresses])
                raise UsageError(
                    f"drain: {drained!r} is no server of this fleet{near}",
                    hint="name an address or a member as it stands above",
                )
        if self.drained_urls >= set(urls):
            raise UsageError("drain: no server is left", hint="leave one that takes requests")


def base_url(address: str, where: str = "") -> str:
    """The address of the API at `address`: `/v1` there, if it names no path.

    Args:
        address: `http://host:port`, or with the API's own path.
        where: Setting with the address, for messages.

    Raises:
        UsageError: The text is no address.
    """
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise UsageError(
            f"{where}{address!r} is not the address of an engine",
            hint="Give http://host:port or https://...",
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        # The address itself may hold a password: it is not repeated.
        raise UsageError(
            f"{where}the address of {parts.hostname} has a user, a query or a fragment",
            hint='Give http://host:port/path, and the key by key = "env:NAME"',
        )
    bare = address.rstrip("/")
    return bare if parts.path.strip("/") else f"{bare}/v1"


def check_header(name: str, value: str) -> None:
    """Check a header that requests are sent with.

    Args:
        name: Name of the header.
        value: Value of the header, or `env:NAME` for that of a variable.

    Raises:
        UsageError: No request takes such a header, or its value is a secret or cannot be sent.
    """
    if not _HEADER.fullmatch(name) or name.lower() in _NOT_TAKEN:
        raise UsageError(f"headers: {name!r} is no header of requests", hint="Leave it out")
    if value.startswith("env:"):
        check_reference(value, f"headers: the value of {name!r}")
    elif SECRET_HEADER.search(name):
        raise UsageError(
            f"headers: {name!r} carries a secret, which has no place in a file",
            hint='Put its value in a variable and give "env:NAME"',
        )
    elif not value.isascii() or not value.isprintable():
        raise UsageError(
            f"headers: the value of {name!r} has a character that no header takes",
            hint="Give printable ASCII",
        )
