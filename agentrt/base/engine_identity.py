"""Identity of an engine, as far as its answers depend on it."""

from __future__ import annotations

import json
from pathlib import Path

from agentrt.base.config import EngineConfig
from agentrt.base.engine_selection import EngineSettings
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.gguf.checkpoint_files import is_gguf

_REMOTE = ("kind", "protocol", "model", "organisation", "project")
_EMBEDDED = (
    *("device", "dtype", "seed", "random_weights", "kernels"),
    *("weights", "weight_group", "head_weights", "activations", "kv_cache_dtype"),
    "expert_routing",
    *("jump_forward", "replay"),
)
_MODEL_FILES = (".safetensors", ".json", ".jinja", ".model", ".txt")


def engine_identity(settings: EngineSettings) -> str:
    """Text that is equal for two engines only if they answer equally, as far as settings tell.

    Keys and secret headers are no part of it, names of variables that hold them are. Files of an
    embedded model count by name, size and time of change. The servers of a fleet are equal, so that
    it is what they are and not where: another server, order, weight or drain changes nothing.
    """
    if isinstance(settings, EngineConfig):
        return json.dumps(_embedded(settings), sort_keys=True)
    if settings.is_fleet:
        every = {json.dumps(_remote(one.engine), sort_keys=True) for one in settings.workers}
        return json.dumps({"fleet": sorted(every)})
    return json.dumps(_remote(settings) | {"url": settings.url}, sort_keys=True)


def _remote(settings: RemoteEngineConfig) -> dict[str, object]:
    known = {name: getattr(settings, name) for name in _REMOTE}
    return known | {"headers": dict(settings.headers)}


def _embedded(settings: EngineConfig) -> dict[str, object]:
    folder = Path(settings.model_path).resolve()
    known: dict[str, object] = {name: str(getattr(settings, name)) for name in _EMBEDDED}
    files = sorted(one for one in folder.glob("*") if one.suffix in _MODEL_FILES)
    if is_gguf(folder):
        files = [folder]
    facts = [(one.name, one.stat()) for one in files if one.is_file()]
    known["files"] = [(name, fact.st_size, fact.st_mtime_ns) for name, fact in facts]
    known["adapters"] = [
        (one.name, str(Path(one.path).resolve()), _facts(Path(one.path)))
        for one in settings.adapters
    ]
    return known | {"folder": str(folder)}


def _facts(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of change of a folder's files of a model."""
    files = sorted(one for one in folder.glob("*") if one.suffix in _MODEL_FILES)
    facts = [(one.name, one.stat()) for one in files if one.is_file()]
    return [(name, fact.st_size, fact.st_mtime_ns) for name, fact in facts]
