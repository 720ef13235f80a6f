"""The `adapter_config.json` of a PEFT checkpoint: ranks and scales, and what is refused."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrt.base.errors import ModelInvalid
from agentrt.base.model_json import parse_model_json, read_model_text

MAX_RANK = 512
_MAX_PATTERN = 1000
"""Characters of a pattern of module names: published ones have some dozens."""

_REFUSED = {
    "use_dora": "DoRA",
    "lora_bias": "biases of its own",
    "modules_to_save": "whole modules",
    "trainable_token_indices": "embeddings of tokens",
    "target_parameters": "parameters that are no module, as experts are",
    "layer_replication": "layers that come several times",
    "alora_invocation_tokens": "an adapter that begins at certain tokens",
    "use_qalora": "QA-LoRA",
    "use_bdlora": "BD-LoRA",
    "arrow_config": "an arrow router",
    "kasa_config": "KaSA",
    "monteclora_config": "MonteCLoRA",
    "velora_config": "VeLoRA",
}
"""Settings that change what an adapter computes, and what each brings."""

_CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Beginnings of `init_lora_weights` under which the base's own weights are changed, too."""


@dataclass(frozen=True, slots=True)
class LoraConfig:
    """Settings of an adapter.

    Attributes:
        path: Directory of the adapter.
        rank: Rank of modules that `rank_pattern` does not name.
        alpha: Scale of the product, before it is divided by the rank or its root.
        by_root: Whether it is divided by the root of the rank (rsLoRA).
        rank_pattern: Ranks of modules by a pattern of their names.
        alpha_pattern: Alphas likewise.
        targets: Names of modules or ends of them, or one pattern of whole names.
    """

    path: Path
    rank: int
    alpha: float
    by_root: bool
    rank_pattern: dict[str, int]
    alpha_pattern: dict[str, float]
    targets: tuple[str, ...] | str

    def rank_of(self, module: str) -> int:
        """Rank of a module."""
        return int(self._of(self.rank_pattern, module, self.rank))

    def scale_of(self, module: str) -> float:
        """Factor of a module's product."""
        alpha = self._of(self.alpha_pattern, module, self.alpha)
        rank = self.rank_of(module)
        return alpha / (math.sqrt(rank) if self.by_root else rank)

    def is_target(self, module: str) -> bool:
        """Whether the settings name a module, as PEFT reads them."""
        if isinstance(self.targets, str):
            return self.targets == "all-linear" or bool(re.fullmatch(self.targets, module))
        return any(module == one or module.endswith(f".{one}") for one in self.targets)

    def _of(self, pattern: dict[str, Any], module: str, other: float) -> float:
        for key, value in pattern.items():
            if re.match(rf"(.*\.)?({key})$", module):
                return float(value)
        return other


def read_adapter_config(path: Path) -> LoraConfig:
    """The settings of the adapter in the directory `path`.

    Raises:
        ModelInvalid: Something is missing, malformed, or not computed here.
    """
    file = path / "adapter_config.json"
    try:
        given = parse_model_json(read_model_text(file), file)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelInvalid(
            f"the adapter {path} has no adapter_config.json",
            hint="Give the directory that PEFT's `save_pretrained` wrote",
        ) from None
    if given.get("peft_type") != "LORA":
        raise ModelInvalid(
            f"{file}: peft_type is {given.get('peft_type')!r}, and only LORA is computed",
            hint="Merge the adapter into its base: `model.merge_and_unload()`",
        )
    _check_refused(file, given)
    targets = given.get("target_modules")
    config = LoraConfig(
        path=path,
        rank=_rank(file, "r", given.get("r")),
        alpha=_number(file, "lora_alpha", given.get("lora_alpha")),
        by_root=bool(given.get("use_rslora")),
        rank_pattern={
            key: _rank(file, f"rank_pattern.{key}", value)
            for key, value in _patterns(file, "rank_pattern", given).items()
        },
        alpha_pattern={
            key: _number(file, f"alpha_pattern.{key}", value)
            for key, value in _patterns(file, "alpha_pattern", given).items()
        },
        targets=_targets(file, targets),
    )
    if isinstance(config.targets, str) and config.targets != "all-linear":
        _check_pattern(file, "target_modules", config.targets)
    return config


def _check_refused(file: Path, given: dict[str, Any]) -> None:
    wanted = [(name, what) for name, what in _REFUSED.items() if given.get(name)]
    if given.get("bias") not in (None, "none"):
        wanted.append(("bias", "changed biases of the base"))
    if str(given.get("init_lora_weights")).lower().startswith(_CHANGES_BASE):
        wanted.append(("init_lora_weights", "changed weights of the base"))
    if wanted:
        name, what = wanted[0]
        raise ModelInvalid(
            f"{file}: {name} = {given[name]!r} brings {what}, which no batch of adapters computes",
            hint="Merge the adapter into its base (`model.merge_and_unload()`), or train it "
            "without that",
        )


def _targets(file: Path, given: object) -> tuple[str, ...] | str:
    if isinstance(given, str) and given:
        return given
    if isinstance(given, list) and given and all(isinstance(one, str) for one in given):
        return tuple(given)
    raise ModelInvalid(
        f"{file}: target_modules is {given!r}, no names and no pattern",
        hint="Copy the adapter again",
    )


def _patterns(file: Path, name: str, given: dict[str, Any]) -> dict[str, Any]:
    found = given.get(name) or {}
    if not isinstance(found, dict):
        raise ModelInvalid(f"{file}: {name} is no table", hint="Copy the adapter again")
    for key in found:
        _check_pattern(file, name, key)
    return found


def _check_pattern(file: Path, name: str, pattern: str) -> None:
    try:
        if len(pattern) > _MAX_PATTERN:
            raise ModelInvalid(
                f"{file}: a pattern of {name} has {len(pattern)} characters",
                hint=f"Name the modules in at most {_MAX_PATTERN}",
            )
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ModelInvalid(
            f"{file}: {name} has {pattern!r}, which is no pattern: {error}",
            hint="Copy the adapter again",
        ) from None


def _rank(file: Path, name: str, given: object) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= MAX_RANK:
        return given
    raise ModelInvalid(
        f"{file}: {name} is {given!r}, no rank of 1 to {MAX_RANK}", hint="Copy the adapter again"
    )


def _number(file: Path, name: str, given: object) -> float:
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return float(given)
    raise ModelInvalid(f"{file}: {name} is {given!r}, no number", hint="Copy the adapter again")
