"""Kinds of remote engines: what each server takes, as data with the documents that say so.

A kind is a file in `kinds/`. Adding a server of the API takes no code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast

from agentrt.base.constraint_spec import ConstraintKind
from agentrt.base.engines.kind_tokens import KindDialects, KindTokens, dialects_in, tokens_in
from agentrt.base.engines.kind_warming import KindWarming, warming_in

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

ANY_KIND = "openai-compatible"
CHAT_COMPLETIONS = "chat_completions"

PriorityOrder = Literal["smallest", "largest"]
HintName = Literal["priority", "session"]


@dataclass(frozen=True, slots=True)
class KindField:
    """A parameter of a request in the words of one kind of server.

    Attributes:
        field: Name of the field.
        source: Address of the document that describes it.
    """

    field: str
    source: str


@dataclass(frozen=True, slots=True)
class KindHint:
    """A hint about a request that one kind of server takes.

    Attributes:
        name: "priority", or "session", the identity of the run.
        field: Name of the field.
        first: Priorities that are served first: "smallest" or "largest".
        source: Address of the document that describes it.
    """

    name: HintName
    field: str
    first: PriorityOrder = "smallest"
    source: str = ""


@dataclass(frozen=True, slots=True)
class KindLoad:
    """Doors at which one kind of server shows its load, beside the API; "" is a figure it lacks.

    Attributes:
        metrics_path: Path of its metrics, in Prometheus' text format.
        running: Gauge of the requests that it computes.
        waiting: Gauge of the requests in its own queue.
        kv_used: Gauge of the share of its KV cache that requests hold, 0 to 1.
        kv_info: Metric with the size of the KV cache in its labels.
        kv_factors: Labels whose product is that size in tokens.
        capacity_path: Path of a JSON object with its capacity.
        slots: Dotted place in it of the number of requests that are served at once; `*` adds up
            the members of a list.
        kv_tokens: Dotted place in it of the size of the KV cache in tokens.
        source: Address of the document that describes it.
    """

    metrics_path: str = ""
    running: str = ""
    waiting: str = ""
    kv_used: str = ""
    kv_info: str = ""
    kv_factors: tuple[str, ...] = ()
    capacity_path: str = ""
    slots: str = ""
    kv_tokens: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """One kind of server.

    Attributes:
        name: Name in settings.
        title: Name for people.
        address: Address if the settings give none; "" if there is no usual one.
        protocol: Wire protocol that its fields and constraints are of.
        protocols: All wire protocols that it speaks, the one that it is best spoken to in first.
        is_probed: Whether its features are found out by requests, since they are not known.
        is_hosted: Whether it is an API of a provider, where accounts have limits of their rates.
        lists_window: Whether its list of models has their context lengths.
        family: Family of its own parameters ("vllm", "sglang", "llamacpp"), or "".
        sources: Documents, by the short names of the file.
        fields: Field of each parameter that the server takes.
        constraints: Dialects by kind of constraint.
        takes_bounds: Whether its strict schemas may have lengths, ranges and patterns.
        load: Doors at which it shows its load; None if it has none.
        hints: Hints about requests that it takes.
        health: Path of its health check beside the API; "" if it has none.
        tokens: Door at which it takes prompts as token ids; None if it has none.
        kv_events: Address of the document of its KV events; "" if it publishes none.
        warming: How its prefix cache is warmed; None if it has none, or charges for each prompt.
    """

    name: str
    title: str
    address: str
    protocol: str
    protocols: tuple[str, ...]
    is_probed: bool
    is_hosted: bool
    lists_window: bool
    family: str
    sources: Mapping[str, str]
    fields: Mapping[str, KindField]
    constraints: Mapping[ConstraintKind, KindDialects]
    takes_bounds: bool
    load: KindLoad | None
    hints: tuple[KindHint, ...]
    health: str
    tokens: KindTokens | None
    kv_events: str
    warming: KindWarming | None

    @property
    def provider(self) -> str:
        """Provider, by its name in OpenTelemetry's conventions; "" if it may be any."""
        return _PROVIDERS.get(self.name, self.name)


_PROVIDERS = {"gemini": "gcp.gemini", "openai-compatible": ""}


def _kinds() -> Traversable:
    from importlib.resources import files  # few commands need a kind

    return files(__package__).joinpath("kinds")


@cache
def kind_names() -> tuple[str, ...]:
    """Names of all kinds, in order."""
    suffix = ".toml"
    names = (one.name for one in _kinds().iterdir())
    return tuple(sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix)))


@cache
def engine_kind(name: str, protocol: str = "") -> EngineKind:
    """The kind of that name, one of `kind_names()`.

    Args:
        name: Name of the kind.
        protocol: One of its wire protocols; "" takes the first.
    """
    import tomllib  # few commands need a kind

    text = _kinds().joinpath(f"{name}.toml").read_text("utf-8")
    table: dict[str, Any] = tomllib.loads(text)
    sources: dict[str, str] = table["sources"]
    first = table.get("protocol", CHAT_COMPLETIONS)
    others: dict[str, Any] = table.get("protocols", {})
    spoken = table if protocol in ("", first) else others[protocol]
    return EngineKind(
        name,
        table["title"],
        table.get("address", ""),
        protocol or first,
        (first, *others),
        table.get("probed", False),
        table.get("hosted", False),
        table.get("lists_window", False),
        table.get("family", ""),
        sources,
        {
            parameter: KindField(row["field"], sources[row["from"]])
            for parameter, row in spoken.get("fields", {}).items()
        },
        dialects_in(spoken.get("constraints", {}), sources),
        spoken.get("bounds", True),
        _load(table["load"], sources) if "load" in table else None,
        tuple(
            KindHint(
                cast(HintName, hint),
                row["field"],
                row.get("first", "smallest"),
                sources[row["from"]],
            )
            for hint, row in spoken.get("hints", {}).items()
        ),
        table.get("health", ""),
        tokens_in(table["tokens"], sources) if "tokens" in table else None,
        sources[table["kv_events"]["from"]] if "kv_events" in table else "",
        warming_in(table["warming"], sources) if "warming" in table else None,
    )


@cache
def load_door(family: str) -> KindLoad | None:
    """Where servers of a family show their load; None if they do not."""
    if not family:
        return None
    names = sorted(kind_names(), key=lambda name: name != family)  # its own kind first
    kinds = map(engine_kind, names)
    return next((one.load for one in kinds if one.family == family and one.load), None)


def _load(row: dict[str, Any], sources: Mapping[str, str]) -> KindLoad:
    given = {name: value for name, value in row.items() if name not in ("kv_factors", "from")}
    factors = tuple(row.get("kv_factors", ()))
    return KindLoad(**given, kv_factors=factors, source=sources[row["from"]])
