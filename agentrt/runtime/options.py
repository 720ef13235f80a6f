"""How one run goes, where its caller wants it otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from agentrt.base.ids import NodeId, RunId


@dataclass(frozen=True, slots=True)
class PersonQuestion:
    """What a program asks a person.

    Attributes:
        node_id: The node that waits for the answer.
        text: As shown.
        form: The type of the answer.
    """

    node_id: NodeId
    text: str
    form: Any


OnAsk = Callable[[PersonQuestion], "Awaitable[Any] | Any"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run; what is None comes from the runtime's `RunConfig`.

    Attributes:
        run_id: 16 hex digits; None makes one.
        seed: From which every node derives its own.
        deadline_s: For the whole run.
        on_emit: Takes the text that the program emits, as it comes.
        on_ask: Answers the program's questions, with a value or with text.
        tenant: Who pays for the run: tenants share the engines evenly, however much each asks for.
        priority: Above (or, negative, below) other runs of its tenant.
        true_service_s: Service of its engines that the run will need, where a replay knows it: for
            the policy "oracle".
        cache_salt: Runs share prefixes and generations only with runs of the same salt.
        keeps_prefixes: Later runs may go on from the prompts of this one, as those of a chat whose
            client keeps it; engines are then not told to give the prefixes up when the run ends.
    """

    run_id: RunId | None = None
    seed: int | None = None
    deadline_s: float | None = None
    on_emit: Callable[[str], None] | None = None
    on_ask: OnAsk | None = None
    tenant: str = ""
    priority: int = 0
    true_service_s: float | None = None
    cache_salt: str = ""
    keeps_prefixes: bool = False
