"""Form of a tool that runs in a process of its own: its import path, its types, its limits."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, get_type_hints

from agentrt.base.errors import UsageError
from agentrt.tools.schema import has_json_form
from agentrt.tools.signature import arguments_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# fmt: off
KEPT_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "TMP",
    "TEMP", "VIRTUAL_ENV", "PYTHONHOME", "PYTHONHASHSEED", "LD_LIBRARY_PATH", "SSL_CERT_FILE",
    "SSL_CERT_DIR", "OMP_NUM_THREADS",
)
# fmt: on
"""Variables that each process gets. Others, which may be secrets, are named by the tool."""


@dataclass(frozen=True, slots=True)
class ProcessForm:
    """Where a process finds a tool, and its limits.

    Attributes:
        module: Name of the module.
        file: File of the module; "" if unknown.
        qualname: Name of the function in the module.
        memory_bytes: Limit on the address space of the process; None sets none.
        env: Names of further environment variables for the process.
    """

    module: str
    file: str
    qualname: str
    memory_bytes: int | None = None
    env: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        *,
        name: str,
        where: str,
        memory_bytes: int | None,
        env: Sequence[str],
    ) -> ProcessForm:
        """The form for `fn`.

        Raises:
            UsageError: No other process can import `fn`, a type has no JSON form, or a limit is out
                of range.
        """
        qualname = getattr(fn, "__qualname__", "")
        if not inspect.isfunction(fn) or "<" in qualname or "." in qualname:
            raise UsageError(
                f"tool {name} cannot be imported by another process: {qualname or fn!r}",
                hint="Define it as a function of a module, or leave out process=True",
                where=where,
            )
        if memory_bytes is not None and memory_bytes < 1:
            raise UsageError(
                f"tool {name}: memory_bytes={memory_bytes}", hint="Give 1 or more", where=where
            )
        with suppress(NameError):  # a name defined later in the module: the first call reads it
            _check_types(fn, name, where)
        module = sys.modules.get(fn.__module__)
        file = getattr(module, "__file__", None) or fn.__code__.co_filename
        return cls(fn.__module__, os.path.abspath(file), qualname, memory_bytes, tuple(env))


@dataclass(frozen=True, slots=True)
class JsonTypes:
    """Validators of what crosses the process.

    Attributes:
        arguments: Arguments by name.
        result: The result.
    """

    arguments: TypeAdapter[Any]
    result: TypeAdapter[Any]

    @classmethod
    def of(cls, fn: Callable[..., Any], name: str, where: str = "") -> JsonTypes:
        """The validators of the type hints of `fn`.

        Raises:
            UsageError: A type has no JSON form.
        """
        from pydantic import TypeAdapter
        from typing_extensions import TypedDict

        _check_types(fn, name, where)
        optional: Any = NotRequired
        make: Any = TypedDict
        every = {one.name: optional[one.type] for one in arguments_of(fn, name, where)}
        hints = get_type_hints(fn, include_extras=True)
        return cls(TypeAdapter(make("Arguments", every)), TypeAdapter(hints["return"]))


def json_of(adapter: TypeAdapter[Any], value: Any) -> bytes:
    """A value as JSON that gives the same value back.

    Raises:
        ValueError: JSON changes the value, or cannot hold it.
    """
    text = adapter.dump_json(value, warnings="error")
    if adapter.validate_json(text) != value:
        raise ValueError("the value is not the same after JSON")
    return text


def _check_types(fn: Callable[..., Any], name: str, where: str) -> None:
    hints = get_type_hints(fn, include_extras=True)
    if "return" not in hints:
        raise UsageError(
            f"tool {name} runs in a process and has no result type",
            hint="Annotate it, e.g. `-> str`",
            where=where,
        )
    every = {f"parameter {one.name}": one.type for one in arguments_of(fn, name, where)}
    for what, form in {**every, "the result": hints["return"]}.items():
        if not has_json_form(form):
            raise UsageError(
                f"tool {name} runs in a process: the type of {what} has no JSON form",
                hint="Use JSON-like types, or leave out process=True",
                where=where,
            )
