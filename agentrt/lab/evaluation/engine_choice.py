"""Configurations of `--configs`: names of engines, checkpoints, or files of settings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agentrt.base.config import EngineConfig
from agentrt.base.engine_selection import EngineSelection, EngineSettings, check_draft_model
from agentrt.base.engine_setting_values import allowed, fits, setting_types
from agentrt.base.engines.embedded_table import ADAPTERS, adapters_of_table
from agentrt.base.engines.engine_file import EMBEDDED, EngineFile
from agentrt.base.errors import UsageError
from agentrt.base.expert_memory import expert_memory
from agentrt.base.expert_routing import expert_routing
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.base.record import record

_SELECTION = ("engine", "model", "api_key")
_OWN = ("name",)


@record
class EvaluationConfig:
    """A configuration under which a suite runs.

    Attributes:
        name: Name in tables and files.
        settings: Settings of its engine.
        roles: Settings of the engines of other roles; None takes those of `agentrt.toml`.
    """

    name: str
    settings: EngineSettings
    roles: Mapping[str, EngineSettings] | None = None


def read_configs(text: str, file: EngineFile, model: Path) -> list[EvaluationConfig]:
    """The configurations that `--configs` names, with commas between them.

    Args:
        text: Names of engines in `agentrt.toml`, URLs, `embedded`, checkpoint directories, GGUF
            files, or files ending in `.toml`.
        file: Engines by name.
        model: Directory of the embedded engine's model if none is named.

    Raises:
        UsageError: One is nothing of these, has a wrong setting, or has the name of another.
    """
    found: dict[str, EvaluationConfig] = {}
    for given in (one.strip() for one in text.split(",")):
        if not given:
            raise UsageError(f"--configs {text!r} has nothing at a comma", hint="give A,B")
        one = _config(given, file, model)
        if one.name in found:
            raise UsageError(
                f"two configurations are named {one.name!r}",
                hint='give each file a name of its own: name = "int8"',
            )
        found[one.name] = one
    return list(found.values())


def _config(given: str, file: EngineFile, model: Path) -> EvaluationConfig:
    path = Path(given)
    if given in file.engines:  # also beside a folder of that name, such as the suite's
        return EvaluationConfig(given, EngineSelection(given).settings(file, model))
    if given.endswith(".toml"):
        return _of_file(path, file, model)
    if is_gguf(path) and not path.is_file():
        raise UsageError(f"there is no file {path}", hint="name a GGUF file that is there")
    if path.is_dir() or is_gguf(path):
        return EvaluationConfig(given, EngineSelection(EMBEDDED, given).settings(file, model))
    return EvaluationConfig(given, EngineSelection(given).settings(file, model))


def _of_file(path: Path, file: EngineFile, model: Path) -> EvaluationConfig:
    """The configuration of a file: an engine, its model, and settings of the embedded engine."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", hint="name a file that is there") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}",
            hint='write lines such as engine = "strong"',
        ) from None
    for key in (*_SELECTION, *_OWN):
        if key in table and not isinstance(table[key], str):
            raise UsageError(f"{path}: {key}={table[key]!r} is no text", hint=f'{key} = "..."')
    chosen = {key: table[key] for key in _SELECTION if key in table}
    if chosen.get("engine", EMBEDDED) == EMBEDDED:
        if "model" in chosen:
            chosen["model"] = str(path.parent / chosen["model"])
        chosen["engine"] = EMBEDDED
    settings = EngineSelection(**chosen).settings(file, model)
    more = {key: value for key, value in table.items() if key not in (*_SELECTION, *_OWN)}
    if more:
        settings = _with_settings(settings, more, path)
    return EvaluationConfig(table.get("name", path.stem), settings)


def _with_settings(settings: EngineSettings, more: Mapping[str, Any], path: Path) -> EngineSettings:
    """The settings of an embedded engine with those of a file."""
    if not isinstance(settings, EngineConfig):
        raise UsageError(
            f"{path}: {next(iter(more))!r} is a setting of the embedded engine",
            hint="settings of a remote engine stand in agentrt.toml",
        )
    forms, values = setting_types(), dict(more)
    if ADAPTERS in values:
        given = values.pop(ADAPTERS)
        adapters = adapters_of_table(f"{path}: {ADAPTERS}", path.parent, given)
        settings = replace(settings, adapters=adapters)
    for key, value in values.items():
        if key not in forms:
            close = get_close_matches(key, forms, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(forms)}"
            raise UsageError(f"{path}: {key!r} is no setting of the engine", hint=hint)
        if not fits(value, forms[key]):
            raise UsageError(f"{path}: {key}={value!r} is no value of it", hint=allowed(forms[key]))
    if "draft_model" in values:
        values["draft_model"] = path.parent / values["draft_model"]
    config = replace(settings, **values)
    check_draft_model(config)
    expert_routing(config.expert_routing)
    expert_memory(config.expert_memory)
    return config
