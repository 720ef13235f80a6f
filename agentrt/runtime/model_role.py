"""An engine as the runtime sees it: a backend in a role, with the codec of its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import anyio

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import InternalError, Unsupported, UsageError
from agentrt.base.record import record
from agentrt.base.segments import Text
from agentrt.program import Gen, GenerateWork
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.program.scope import sooner
from agentrt.prompt.large_text import LARGE_CHARACTERS
from agentrt.protocol.backend import Backend, Capabilities

if TYPE_CHECKING:
    from agentrt.prompt import Codec


@record
class ModelRole:
    """A backend in a role.

    Attributes:
        role: Name of the role, as in `model=`.
        backend: The backend.
        codec: Codec of its model; None for engines that take messages.
        adapter: Adapter of its requests; "" is the model as it is.
    """

    role: str
    backend: Backend
    codec: Codec | None
    adapter: str = ""

    @property
    def capabilities(self) -> Capabilities:
        """Abilities of the backend; known once it has started."""
        return self.backend.capabilities

    @property
    def window_tokens(self) -> int:
        """Context length if prompts are counted here; 0 if the engine counts them."""
        if self.codec is None or self.capabilities.prompt == "messages":
            return 0
        return self.capabilities.window_tokens or self.codec.window_tokens

    async def aclose(self) -> None:
        """Close the backend, even while the caller is being cancelled."""
        with anyio.CancelScope(shield=True):
            await self.backend.aclose()

    def prompt_tokens(self, work: GenerateWork[Any], cache_salt: str = "") -> int:
        """Length of the known part of a prompt; 0 if it is not counted here.

        The codec keeps the encoding, so the prompt is not encoded again when it is sent.
        """
        if self.codec is None or self.capabilities.prompt == "messages":
            return 0
        chat = work.chat
        try:
            segments = prompt_segments(chat)
            if any(type(one) is Text and len(one.text) > LARGE_CHARACTERS for one in segments):
                return 0  # it is encoded in a worker thread before it is sent
            encoded = self.codec.encode(chat.tools, segments, chat.history, cache_salt)
            return len(encoded.token_ids)
        except Exception:
            return 0  # an input failed, or the template refuses the prompt: sending reports it

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Let it compile constraints ahead, those that it enforces."""
        kinds = self.capabilities.constraints
        self.backend.prewarm(tuple(spec for spec in constraints if spec.kind in kinds))

    def token_counter(self) -> Callable[[str], int]:
        """The function that counts the tokens of a text.

        Raises:
            UsageError: The tokenizer of the engine is not known here.
        """
        if self.codec is not None:
            return self.codec.count
        count: Callable[[str], int] | None = getattr(self.backend, "count_tokens", None)
        if count is None:
            raise UsageError(
                f"the tokenizer of the engine {self.role!r} is not known here",
                hint="Name its tokenizer in agentrt.toml, or give count=, such as len",
            )
        return count

    def check_codec(self) -> None:
        """Refuse a backend that does not fit its codec.

        Raises:
            InternalError: The backend takes token ids, and the codec is missing or another model's.
        """
        takes = self.capabilities
        if takes.prompt == "tokens" and self.codec is None:
            raise InternalError(f"the engine {self.role!r} takes token ids but has no codec")
        if self.codec is not None and takes.codec and takes.codec != self.codec.fingerprint:
            raise InternalError(
                f"the engine {self.role!r} has another tokenizer or template than its codec"
            )

    def check_generation(self, gen: Gen[Any], cache_salt: str = "") -> None:
        """Refuse a generation that needs an ability which this engine lacks.

        Raises:
            UsageError: The options contradict each other.
            Unsupported: The engine does not enforce the constraint, writes prompts by its template
                although the chat is to be appended to, does not limit reasoning, score choices or
                report logprobs, or knows no salts. Or a limit of cost holds, and the engine has no
                prices, or one of time without a deadline.
        """
        work, site = gen.work, gen.site
        takes, constraint = self.capabilities, work.output.constraint
        if constraint is not None and constraint.kind not in takes.constraints | takes.checked:
            kinds = ", ".join(sorted(takes.constraints)) or "none"
            self._refuse(
                site,
                f"does not enforce {constraint.kind} constraints ({work.output.name})",
                f"It enforces: {kinds}. Use another engine or another output type",
            )
        if work.chat.history == "append" and takes.prompt == "messages":
            self._refuse(
                site, "writes its prompts itself, by its template", 'Leave history at "template"'
            )
        if work.thinking_tokens is not None and takes.thinking is None and not takes.thinks:
            self._refuse(
                site,
                "cannot be held to a number of tokens of thought",
                "Leave thinking out, or use the embedded engine",
            )
        if cache_salt and not takes.cache_salts:
            self._refuse(
                site,
                "does not keep prefixes of different salts apart",
                "Leave cache_salt out of RunOptions, or use vLLM, SGLang or the embedded engine",
            )
        if work.scored and not takes.scores:
            self._refuse(
                site,
                "does not score choices",
                "Leave scored out, or use the embedded engine or agentrt serve with a tokenizer",
            )
        if work.sampling.logprobs and not takes.logprobs:
            by_ids = takes.backend == "remote" and takes.prompt == "messages"
            more = ", or give the engine its tokenizer, if its kind reports them" if by_ids else ""
            self._refuse(site, "reports no logprobs", f"Leave logprobs at 0{more}")
        if work.sampling.ignore_eos and constraint is not None:
            raise UsageError(
                f"ignore_eos=True goes on where {work.output.name} ends",
                hint="Leave ignore_eos out, or generate free text",
                where=site,
            )
        if gen.scope.cost_budgets:
            self._check_cost(gen)

    def _check_cost(self, gen: Gen[Any]) -> None:
        """Refuse a generation under a limit of cost if its highest cost cannot be known."""
        site, prices = gen.site, self.capabilities.prices
        has_deadline = sooner(gen.work.deadline_at_s, gen.scope.deadline_at_s) is not None
        if prices is None:
            self._refuse(
                site,
                "has no prices, so limits(cost=...) cannot hold",
                "Give it prices: [engines.NAME.prices] in agentrt.toml, or prices=Prices.of(...)",
            )
        if prices.device_second_pico and not has_deadline:
            self._refuse(
                site,
                "is priced by the second, so limits(cost=...) holds only under a deadline",
                "Give limits(seconds=...) too",
            )

    def _refuse(self, site: str, lack: str, hint: str) -> NoReturn:
        takes = self.capabilities
        name = f"the {takes.backend} engine of {takes.model}"
        raise Unsupported(f"{name} {lack}", hint=hint, where=site)


def models_of(engines: Mapping[str, ModelRole]) -> dict[str, ModelRole]:
    """Models that `model=` names: engines by role, and the adapters of each by name.

    An adapter is named behind a role of its engine, as `planner+judge`, or alone: then it is that
    of the role `default`, or of the one engine that has it.

    Args:
        engines: Engines by role, which have started.

    Raises:
        UsageError: An adapter has the name of a role, or several engines have it and that of the
            role `default` does not.
    """
    found = dict(engines)
    for role in sorted(engines, key=lambda role: role != "default"):
        engine = engines[role]
        for name in engine.capabilities.adapters:
            adapted = found[f"{role}+{name}"] = replace(engine, adapter=name)
            named = found.setdefault(name, adapted)
            if name in engines or named.role not in ("default", role):
                raise UsageError(
                    f"the adapter {name!r} of the engine {role!r} has the name of another model",
                    hint="Give it another name: each role and adapter has one of its own",
                )
    return found
