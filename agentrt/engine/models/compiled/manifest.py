"""Manifest of a compiled model: what it was made of, for which processors, and what was decided."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agentrt.base.compiled_model import MANIFEST
from agentrt.base.errors import ModelInvalid
from agentrt.base.model_json import parse_model_json, read_model_text
from agentrt.engine.ops.cpu_threads import ThreadChoice, Timing

PACKED_FILE = "packed.safetensors"
"""Matrices in the order in which kernels read them."""
PLAIN_FILE = "plain.safetensors"
"""All else: embedding, norms, biases."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the source checkpoint.

    Attributes:
        name: Name in its directory.
        size: Bytes.
        mtime_ns: Time of its last change.
    """

    name: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The checkpoint that a model was compiled of.

    Attributes:
        path: Directory or GGUF file.
        files: Files of the checkpoint, by name.
        digest: Digest of their names and contents.
    """

    path: str
    files: tuple[SourceFile, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class CompileTarget:
    """Code and processors that a model was compiled for.

    Attributes:
        version: Version of agentrt.
        layout: Digest of the code that lays weights out and computes with them.
        machine: Kind of machine, as `x86_64`.
        features: Features of the processor that kernels use.
    """

    version: str
    layout: str
    machine: str
    features: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompiledSettings:
    """Settings that a compiled model has fixed.

    Attributes:
        dtype: Type of activations.
        weights: Formats of `EngineConfig.weights`.
        weight_group: Inputs that share a scale, as `EngineConfig` has it.
        head_weights: Format of the head, as `EngineConfig` has it.
        asked_dtype: `--dtype` as it was given.
    """

    dtype: str
    weights: str
    weight_group: int
    head_weights: str
    asked_dtype: str = "auto"


@dataclass(frozen=True, slots=True)
class CodesForm:
    """Form of a matrix of codes.

    Attributes:
        bits: Bits of a code; 0 for a matrix without codes.
        group: Inputs that share a scale.
        coding: Meaning of a code, as kernels number it.
    """

    bits: int
    group: int
    coding: int = 0


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """A directory that `agentrt compile` has written.

    Attributes:
        path: The directory.
        source: The checkpoint that it was made of.
        target: Code and processors that it was made for.
        settings: Settings that are fixed by it.
        stored_name: Type in which the source's matrices are quantised; "" if they are plain.
        has_steps: Whether all codes stand for steps.
        check_state: State of the comparison with transformers.
        check_reason: Why, for display.
        parameters: Number of parameters.
        matrices: Form of each matrix by name.
        embedding: Form of the embedding; without bits it is plain.
        files: Bytes of each file by name.
        threads: Choice of threads, measured where it was compiled; None if none was needed.
        threads_of: Kernels and cores with which the choice was measured.
    """

    path: Path
    source: SourceFacts
    target: CompileTarget
    settings: CompiledSettings
    stored_name: str
    has_steps: bool
    check_state: str
    check_reason: str
    parameters: int
    matrices: dict[str, CodesForm]
    embedding: CodesForm
    files: dict[str, int]
    threads: ThreadChoice | None = None
    threads_of: str = ""

    @property
    def command(self) -> str:
        """The command that compiles it again."""
        given = self.settings
        words = ["agentrt", "compile", self.source.path, "--out", str(self.path)]
        if given.asked_dtype != "auto":
            words += ["--dtype", given.asked_dtype]
        if given.weights != "checkpoint":
            words += ["--weights", given.weights]
        if given.weight_group:
            words += ["--weight-group", str(given.weight_group)]
        if given.head_weights != "auto":
            words += ["--head-weights", given.head_weights]
        return shlex.join(words)

    def __str__(self) -> str:
        """Source, version and processors in a line."""
        source, target = self.source, self.target
        there = "" if Path(source.path).exists() else ", which is not here"
        features = ", ".join(target.features) or "any processor"
        return (
            f"from {source.path}{there}, by agentrt {target.version} (layout {target.layout}), "
            f"for {target.machine} with {features}"
        )

    def stale(self, what: str) -> ModelInvalid:
        """The error of a compiled model that does not fit any more."""
        return ModelInvalid(f"{self.path} is stale: {what}", hint=f"Run `{self.command}`")


def write_manifest(model: CompiledModel, folder: Path) -> None:
    """Write the manifest into a folder, in which all other files are; it notes their sizes."""
    files = {
        one.relative_to(folder).as_posix(): one.stat().st_size
        for one in sorted(folder.rglob("*"))
        if one.is_file() and one.name != MANIFEST
    }
    told = asdict(replace(model, files=files))
    del told["path"]
    (folder / MANIFEST).write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def read_manifest(path: Path) -> CompiledModel:
    """The manifest of a compiled model.

    Raises:
        ModelInvalid: The manifest is missing or broken.
    """
    file = path / MANIFEST
    found = parse_model_json(read_model_text(file), file)
    try:
        return _model(path, found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelInvalid(
            f"{file} is no manifest of this version: {type(error).__name__}: {error}",
            hint=f"Run `agentrt compile MODEL --out {shlex.quote(str(path))}`, or copy it again",
        ) from error


def _model(path: Path, found: dict[str, Any]) -> CompiledModel:
    source, threads = found["source"], found["threads"]
    files = tuple(SourceFile(**one) for one in source["files"])
    if threads is not None:
        timings = tuple(Timing(**one) for one in threads["timings"])
        threads = ThreadChoice(**{**threads, "timings": timings})
    target = {**found["target"], "features": tuple(found["target"]["features"])}
    matrices = {name: CodesForm(**one) for name, one in found["matrices"].items()}
    return CompiledModel(
        **{
            **found,
            "path": path,
            "source": SourceFacts(str(source["path"]), files, str(source["digest"])),
            "target": CompileTarget(**target),
            "settings": CompiledSettings(**found["settings"]),
            "matrices": matrices,
            "embedding": CodesForm(**found["embedding"]),
            "threads": threads,
        }
    )
