"""Specification of a tool, for the runtime and the model."""

from __future__ import annotations

import contextlib
import inspect
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from agentrt.base.errors import ToolFailed, UsageError
from agentrt.base.held_place import HeldPlace
from agentrt.base.one_of import OneOf
from agentrt.base.segments import ToolSchema
from agentrt.tools.docstring import read_docstring
from agentrt.tools.signature import Argument, arguments_of, site_of
from agentrt.tools.yielded_text import yields_text

if TYPE_CHECKING:
    from pydantic import ValidationError

    from agentrt.tools.process_form import ProcessForm
    from agentrt.tools.schema import ArgumentForm
    from agentrt.tools.schema_arguments import SchemaArguments

Effects = Literal["pure", "read", "idempotent", "write"]
"""Effect of a tool call on the world.

`pure`: none, and equal arguments give equal results. `read`: none. `idempotent`: changes it, twice
as once. `write`: changes it each time; never started twice, never cut short.
"""

EFFECTS: tuple[Effects, ...] = ("pure", "read", "idempotent", "write")
Backoff = float | Callable[[int], float]
"""Pause before a further attempt: seconds before the second one, twice as many before each one
after it, at most `MAX_BACKOFF_S`; or a function of the number of the attempt that has failed."""

BACKOFF_S = 0.1
MAX_BACKOFF_S = 5.0
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(slots=True)
class _ToolForm:
    """Schemas and validator, built when first needed: `bind` may hide types before."""

    arguments: ArgumentForm | None = None
    schema: ToolSchema | None = None
    signature: inspect.Signature | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ToolSpec:
    """One tool.

    Attributes:
        name: Name for the model.
        description: Description in the docstring.
        effects: Effect of a call on the world.
        timeout_s: Limit of one attempt; None sets none.
        retries: Number of further attempts.
        stable_for_s: Time for which a result stays true; None if unknown.
        max_result_bytes: Limit on the text of a result; None takes that of the runtime.
        process: Form of a tool that runs in a process of its own; None runs it in this one.
        fn: The function.
        is_async: Whether it is awaited instead of run in a worker thread.
        yields: Whether it is a generator of the text of its result.
        backoff: Pause before a further attempt.
        bound: Arguments that are fixed and hidden from the model.
        where: `file:line` of the function.
        schemas: Arguments that come as a JSON Schema; None takes those of the function.
        attributes: Attributes of the spans of its calls, beside those that all tools have.
    """

    name: str
    description: str
    effects: Effects
    timeout_s: float | None
    retries: int
    stable_for_s: float | None
    fn: Callable[..., Any]
    is_async: bool
    bound: Mapping[str, Any] = field(default_factory=dict)
    max_result_bytes: int | None = None
    process: ProcessForm | None = None
    where: str = ""
    yields: bool = False
    backoff: Backoff = BACKOFF_S
    schemas: SchemaArguments | None = None
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    _argument_docs: Mapping[str, str] = field(default_factory=dict)
    _form: _ToolForm = field(default_factory=_ToolForm)
    _chosen: dict[OneOf, OneOf] = field(default_factory=dict)  # from what is bound
    _forms: dict[frozenset[str], _ToolForm] = field(default_factory=dict)  # by the bound names

    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        *,
        effects: Effects = "write",
        timeout_s: float | None = None,
        retries: int = 0,
        backoff: Backoff = BACKOFF_S,
        stable_for_s: float | None = None,
        max_result_bytes: int | None = None,
        process: bool = False,
        memory_bytes: int | None = None,
        env: Sequence[str] = (),
        name: str = "",
    ) -> ToolSpec:
        """The tool for `fn`: schema from its signature, descriptions from its docstring.

        Raises:
            UsageError: A signature or setting that cannot work.
        """
        plain = fn.func if isinstance(fn, partial) else fn
        name = name or getattr(plain, "__name__", "") or type(plain).__name__
        where = site_of(fn)
        check_settings(name, effects, timeout_s, retries, backoff, stable_for_s, where)
        if max_result_bytes is not None and max_result_bytes < 1:
            raise UsageError(
                f"tool {name}: max_result_bytes={max_result_bytes}",
                hint="Give 1 or more",
                where=where,
            )
        call = plain if inspect.isroutine(plain) else getattr(plain, "__call__", plain)  # noqa: B004
        yields = yields_text(call, name=name, where=where, process=process)
        form = None
        if process:
            from agentrt.tools.process_form import ProcessForm  # pydantic

            form = ProcessForm.of(fn, name=name, where=where, memory_bytes=memory_bytes, env=env)
        elif memory_bytes is not None or env:
            raise UsageError(
                f"tool {name}: memory_bytes and env are of a process",
                hint="Give process=True too",
                where=where,
            )
        documented = read_docstring(plain.__doc__ if inspect.isroutine(plain) else None)
        spec = cls(
            name=name,
            description=documented.description,
            effects=effects,
            timeout_s=timeout_s,
            retries=retries,
            backoff=backoff,
            stable_for_s=stable_for_s,
            fn=fn,
            is_async=not process
            and (inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)),
            yields=yields,
            max_result_bytes=max_result_bytes,
            process=form,
            where=where,
            _argument_docs=documented.arguments,
        )
        spec._read()
        _declared.add(spec)
        return spec

    def backoff_s(self, failed: int) -> float:
        """Pause in seconds after so many failed attempts."""
        if callable(self.backoff):
            return max(0.0, self.backoff(failed))
        return min(self.backoff * 2.0 ** (failed - 1), MAX_BACKOFF_S)

    @property
    def schema(self) -> ToolSchema:
        """The tool as shown to the model.

        Raises:
            UsageError: A type has no JSON form.
        """
        if self._form.schema is None:
            self._form.schema = ToolSchema(self.name, self.description, self._arguments().shown)
        return self._form.schema

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments that a model writes."""
        return self.schema.parameters

    @property
    def held(self) -> ToolSchema:
        """The tool as a model is held to it: texts stand in for the options of `late`.

        Options are not shown, so that prompts do not depend on data and share their beginning.

        Raises:
            UsageError: A type has no JSON form.
        """
        return ToolSchema(self.name, "", self._arguments().held)

    @property
    def late(self) -> Mapping[str, HeldPlace]:
        """Options that bound arguments and nodes give, by the names that stand for them.

        Raises:
            UsageError: Options depend on an argument that is not bound.
        """
        chosen, late = self._chosen, self._arguments().late
        for place in late.values():
            if place.one_of not in chosen:
                chosen[place.one_of] = place.one_of.given(self.bound)
        return {name: place.given(chosen[place.one_of]) for name, place in late.items()}

    def bind(self, **fixed: Any) -> ToolSpec:
        """This tool with some arguments fixed and hidden from the model.

        Raises:
            UsageError: The tool has no such parameter.
        """
        names = self._form.names = self._form.names or self._names()
        for name in fixed:
            if name not in names:
                raise UsageError(
                    f"tool {self.name} has no parameter {name}",
                    hint=f"Its parameters: {', '.join(names) or 'none'}",
                    where=self.where,
                )
        bound = {**self.bound, **fixed}
        # The schema depends on the bound names alone, and every run binds the same ones.
        form = self._forms.setdefault(frozenset(bound), _ToolForm())
        return replace(self, bound=bound, _form=form, _chosen={})

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name, from a call in a program; bound ones may be overridden.

        Raises:
            UsageError: The arguments do not fit the signature.
        """
        signature = self._visible()
        hidden = {name: value for name, value in kwargs.items() if name in self.bound}
        rest = {name: value for name, value in kwargs.items() if name not in hidden}
        try:
            given = signature.bind(*args, **rest)
        except TypeError as error:
            shown = ", ".join(map(str, signature.parameters.values()))
            raise UsageError(
                f"tool {self.name}: {error}",
                hint=f"Its parameters: {shown or 'none'}",
                where=self.where,
            ) from error
        named = given.arguments if self.schemas is None else self.schemas.by_name(given)
        return {**named, **hidden}

    def parse(self, arguments_json: str) -> dict[str, Any]:
        """Python values of the arguments written by a model.

        Raises:
            ToolFailed: The text is not JSON, or does not fit the types.
        """
        from pydantic import ValidationError

        try:
            adapter = self._arguments().adapter
            return adapter.validate_json(
                arguments_json, context=self._chosen if self.late else None
            )
        except ValidationError as error:
            raise ToolFailed(
                f"{self.name} refuses its arguments: {_messages(error)}",
                tool=self.name,
                attempts=0,
                hint="Call it again with arguments of the types in its schema",
                where=self.where,
            ) from error

    def _names(self) -> tuple[str, ...]:
        if self.schemas is not None:
            return self.schemas.names
        return tuple(inspect.signature(self.fn).parameters)

    def _visible(self) -> inspect.Signature:
        """The signature without bound parameters."""
        if self._form.signature is None and self.schemas is not None:
            self._form.signature = self.schemas.signature(self.bound)
        if self._form.signature is None:
            every = inspect.signature(self.fn)
            visible = [p for name, p in every.parameters.items() if name not in self.bound]
            self._form.signature = every.replace(parameters=visible)
        return self._form.signature

    def _read(self) -> None:
        """Check the signature now, so that errors appear where the tool is declared."""
        try:
            arguments_of(self.fn, self.name, self.where)
        except NameError:
            return  # a name defined later in the module: read again on demand

    def _arguments(self) -> ArgumentForm:
        from agentrt.tools.schema import form_of

        if self._form.arguments is None and self.schemas is not None:
            self._form.arguments = self.schemas.form(self.bound, self.name)
        if self._form.arguments is None:
            try:
                every = arguments_of(self.fn, self.name, self.where)
            except NameError as error:
                raise UsageError(
                    f"tool {self.name}: an annotation names {error.name}, which is not defined",
                    hint="Import or define it in the tool's module",
                    where=self.where,
                ) from error
            visible: tuple[Argument, ...] = tuple(a for a in every if a.name not in self.bound)
            self._form.arguments = form_of(visible, self._argument_docs, self.name, self.where)
        return self._form.arguments

    def _prepare(self) -> None:
        """Build the form that most programs need: without parameters that no model can write."""
        from agentrt.tools.schema import has_json_form

        every = arguments_of(self.fn, self.name, self.where)
        hidden = {one.name: None for one in every if not has_json_form(one.type)}
        _ = (self.bind(**hidden) if hidden else self).schema


_declared: weakref.WeakSet[ToolSpec] = weakref.WeakSet()


def declared_tool(name: str) -> ToolSpec | None:
    """The only declared tool of that name, with nothing bound; None if there is not exactly one."""
    found = [spec for spec in list(_declared) if spec.name == name]
    return found[0] if len(found) == 1 else None


def prepare_declared() -> None:
    """Build the schemas of all declared tools ahead.

    An error in one appears where a program uses it, as it does without this.
    """
    for spec in list(_declared):
        with contextlib.suppress(UsageError, NameError):
            spec._prepare()


def check_settings(
    name: str,
    effects: Effects,
    timeout_s: float | None,
    retries: int,
    backoff: Backoff,
    stable_for_s: float | None,
    where: str,
) -> None:
    """Check the settings that tools of every origin have.

    Raises:
        UsageError: One of them cannot work.
    """
    for holds, problem, hint in (
        (
            NAME.fullmatch(name),
            f"a tool cannot be called {name!r}",
            "Give name=, letters, digits, _ and -",
        ),
        (
            effects in EFFECTS,
            f"tool {name}: effects={effects!r}",
            f"Give one of {', '.join(EFFECTS)}",
        ),
        (
            timeout_s is None or timeout_s > 0,
            f"tool {name}: timeout of {timeout_s} s",
            "Give more than 0 seconds, or none",
        ),
        (
            stable_for_s is None or stable_for_s >= 0,
            f"tool {name}: stable for {stable_for_s} s",
            "Give 0 seconds or more",
        ),
        (retries >= 0, f"tool {name}: retries={retries}", "Give 0 or more"),
        (
            callable(backoff) or backoff >= 0,
            f"tool {name}: backoff={backoff}",
            "Give 0 seconds or more, or a function of the number of the attempt that has failed",
        ),
        (
            retries == 0 or effects != "write",
            f"tool {name} writes, so it is never started twice, but has retries={retries}",
            "Say effects='idempotent' if doing it twice is as doing it once, else retries=0",
        ),
    ):
        if not holds:
            raise UsageError(problem, hint=hint, where=where)


def _messages(error: ValidationError) -> str:
    """All errors, in a few words each."""
    found = []
    for one in error.errors(include_url=False):
        location = ".".join(map(str, one["loc"]))
        found.append(f"{location}: {one['msg']}" if location else one["msg"])
    return "; ".join(found)
