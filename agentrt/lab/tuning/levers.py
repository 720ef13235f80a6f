"""Levers of a configuration: settings of the embedded engine, and the engine of each role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentrt.base.config import EngineConfig
from agentrt.base.engine_selection import EngineSettings
from agentrt.base.engine_setting_values import allowed, read_value, setting_types
from agentrt.base.engines.engine_file import DEFAULT_ROLE, EMBEDDED, EngineFile
from agentrt.base.engines.setting_errors import meant
from agentrt.base.errors import UsageError
from agentrt.base.gguf.checkpoint_files import is_gguf

ENGINE = "engine"
ROLE = "roles."
MODEL = "model"
NONE = "none"
"""Text of a setting without a value, such as no draft model."""
SETTINGS = (
    *("weights", "activations", "kv_cache_dtype", "speculate_tokens", "dtype"),
    *("max_running", "step_tokens", "prefill_chunk_tokens", "threads"),
    *("expert_routing", "expert_memory"),
    *(MODEL, "draft_model"),
)
"""Levers of the embedded engine, each a key of `[engines.embedded]`."""
FORMATS: dict[str, tuple[str, ...]] = {
    "weights": ("checkpoint", "int8", "int4"),
    "activations": ("auto", "int8"),
    "kv_cache_dtype": ("auto", "int8"),  # fp8 takes as many bytes, errs more and is slower
    "speculate_tokens": ("off", "auto"),
    "dtype": ("auto", "float32", "bfloat16"),
}
"""Levers of the embedded engine that are searched if none is named."""

Levers = dict[str, tuple[str, ...]]
"""Values of each lever, as texts, by its name."""


def read_levers(
    given: Sequence[str], models: str, file: EngineFile, default: EngineSettings
) -> Levers:
    """The levers of `--lever` and `--models`; without any, those of formats and drafts.

    Args:
        given: `NAME=V1,V2`, each.
        models: Names of engines, directories and GGUF files with commas between them, or "".
        file: Engines and roles by name.
        default: Settings of the engine of generations without a role.

    Raises:
        UsageError: A lever or a value is unknown, or there is none to search.

    Example:
        >>> from pathlib import Path
        >>> engine = EngineConfig(Path("model"))
        >>> read_levers(["weights=checkpoint,int8"], "", EngineFile(), engine)
        {'weights': ('checkpoint', 'int8')}
    """
    found: Levers = {}
    for text in given:
        name, equals, values = text.partition("=")
        name = name.strip()
        listed = tuple(dict.fromkeys(one.strip() for one in values.split(",")))
        if not equals or not all(listed):
            raise UsageError(f"--lever {text!r} is no lever", hint="give NAME=VALUE,VALUE")
        if name in found:
            raise UsageError(f"--lever {name} is given twice", hint="list its values once")
        _check(name, listed, file)
        found[name] = listed
    for name, listed in _of_models(models, file).items():
        if name in found:
            raise UsageError(
                f"--models and --lever {name} are the same lever", hint="give one of them"
            )
        found[name] = listed
    if not found and isinstance(default, EngineConfig):
        return dict(FORMATS)
    if not found:
        raise UsageError(
            "there is nothing to search: the engine is a remote one",
            hint="give --models A,B with engines of agentrt.toml, or --lever engine=A,B",
        )
    return found


def setting_of(name: str, text: str) -> tuple[str, Any]:
    """A field of `EngineConfig` and the value that a text gives it.

    Args:
        name: One of `SETTINGS`.
        text: A value that was checked.

    Example:
        >>> setting_of("speculate_tokens", "8"), setting_of("draft_model", "none")
        (('speculate_tokens', 8), ('draft_model', None))
    """
    if name == MODEL:
        return "model_path", Path(text)
    if name == "draft_model":
        return name, None if text == NONE else Path(text)
    return name, read_value(text, setting_types()[name])


def _check(name: str, values: Sequence[str], file: EngineFile) -> None:
    """Check the values of a lever.

    Raises:
        UsageError: The lever or a value is unknown.
    """
    if name == ENGINE or name.startswith(ROLE):
        if name == ROLE + DEFAULT_ROLE or name == ROLE:
            raise UsageError(f"--lever {name} is no role", hint="the default role is engine=A,B")
        for value in values:
            if value != EMBEDDED:
                file.engine(value)
        return
    if name not in SETTINGS:
        known = (*SETTINGS, ENGINE, f"{ROLE}NAME")
        raise UsageError(
            f"--lever {name!r} is no lever{meant(name, known)}",
            hint=f"there are {', '.join(known)}",
        )
    if name in (MODEL, "draft_model"):
        for value in values:
            if value != NONE and not Path(value).exists():
                raise UsageError(
                    f"--lever {name}: there is no {value}", hint="name a directory or a GGUF file"
                )
        return
    form = setting_types()[name]
    for value in values:
        if read_value(value, form) is None:
            raise UsageError(f"--lever {name}={value} is no value of it", hint=allowed(form))


def _of_models(text: str, file: EngineFile) -> Mapping[str, tuple[str, ...]]:
    """Levers of `--models`: the engine of each role, and models of the embedded engine."""
    if not text:
        return {}
    names = tuple(dict.fromkeys(one.strip() for one in text.split(",")))
    if not all(names):
        raise UsageError(f"--models {text!r} has nothing at a comma", hint="give A,B")
    checkpoints = tuple(one for one in names if one not in file.engines and _is_model(one))
    engines = tuple(one for one in names if one not in checkpoints)
    found: Levers = {MODEL: checkpoints} if checkpoints else {}
    if engines:
        choices = (*engines, EMBEDDED) if checkpoints and EMBEDDED not in engines else engines
        roles = [f"{ROLE}{role}" for role in file.roles if role != DEFAULT_ROLE]
        found |= dict.fromkeys([ENGINE, *roles], choices)
    for name, listed in found.items():
        _check(name, listed, file)
    return found


def _is_model(text: str) -> bool:
    return is_gguf(Path(text)) or Path(text).is_dir()
