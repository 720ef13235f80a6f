"""Whether a compiled model still fits: the code, the processor, its source, its own files.

The source is compared by names, sizes and times of change, as reading it takes as long as compiling
saves. Where only times differ, as in a copy, its contents decide. A source that is not there is not
compared: a compiled model stands alone, and may be all that an image ships.
"""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

import agentrt_kernels
from agentrt.engine.models.compiled.manifest import (
    CompiledModel,
    CompileTarget,
    SourceFacts,
    SourceFile,
)
from agentrt_kernels.cpu.processor import processor_features

_FEATURES = (
    *("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"),
    *("avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve"),
)
"""Features, by their names in /proc/cpuinfo, that the kernels of x86-64 and of Arm may use."""
_SOURCE_SUFFIXES = (".safetensors", ".json", ".jinja")
_BLOCK_BYTES = 1 << 20


def check_fresh(model: CompiledModel) -> None:
    """Check that a compiled model may be computed here.

    Raises:
        ModelInvalid: The model is stale; the message says what differs.
    """
    for name, size in model.files.items():
        file = model.path / name
        if not file.is_file():
            raise model.stale(f"{name} is missing")
        if file.stat().st_size != size:
            raise model.stale(f"{name} has {file.stat().st_size:,} bytes instead of {size:,}")
    here, made = this_target(), model.target
    if made.version != here.version:
        raise model.stale(f"agentrt {made.version} compiled it, and this is {here.version}")
    if made.layout != here.layout:
        raise model.stale(
            f"other code lays weights out: {made.layout} then, {here.layout} in this installation"
        )
    if made.machine != here.machine:
        raise model.stale(f"it is for {made.machine}, and this machine is {here.machine}")
    missing = [one for one in made.features if one not in here.features]
    if missing:
        raise model.stale(f"it is for processors with {', '.join(missing)}, which this one lacks")
    changed = source_change(model.source)
    if changed:
        raise model.stale(f"its source {model.source.path} has changed: {changed}")


def this_target() -> CompileTarget:
    """The code and the processor at hand."""
    features = frozenset(processor_features().split())
    present = tuple(one for one in _FEATURES if one in features)
    return CompileTarget(version("agentrt"), layout_digest(), platform.machine(), present)


@cache
def layout_digest() -> str:
    """Digest of the code that reads, lays out and computes weights."""
    kernels, models = Path(agentrt_kernels.__file__).parent / "cpu", Path(__file__).parents[1]
    seen = hashlib.blake2b(digest_size=8)
    for root in (kernels, models, models.parent / "ops"):
        for file in sorted(root.rglob("*")):
            if file.suffix in (".py", ".h", ".cpp"):
                seen.update(f"{file.relative_to(root)}".encode() + b"\0" + file.read_bytes())
    return seen.hexdigest()


def source_facts(path: Path) -> SourceFacts:
    """Facts by which a later start sees whether the checkpoint at `path` has changed."""
    path = path.resolve()
    return SourceFacts(str(path), _files(path), _digest(path, _files(path)))


def source_change(source: SourceFacts) -> str:
    """The first change of a source; "" if nothing has, or if it is gone."""
    path = Path(source.path)
    if not path.exists():
        return ""
    found = _files(path)
    now, then = ({one.name: one for one in files} for files in (found, source.files))
    for name in sorted(now.keys() | then.keys()):
        if name not in now:
            return f"{name} is missing"
        if name not in then:
            return f"{name} is new"
        if now[name].size != then[name].size:
            return f"{name} has {now[name].size:,} bytes instead of {then[name].size:,}"
    if now == then or _digest(path, found) == source.digest:
        return ""
    changed = next(name for name in sorted(now) if now[name].mtime_ns != then[name].mtime_ns)
    return f"{changed} was written anew, with other contents in the directory"


def _files(path: Path) -> tuple[SourceFile, ...]:
    if path.is_file():
        return (_file(path, path.name),)
    found = sorted((*path.glob("*"), *path.glob("additional_chat_templates/*")))
    return tuple(
        _file(file, file.relative_to(path).as_posix())
        for file in found
        if file.is_file() and file.suffix in _SOURCE_SUFFIXES and not file.name.startswith(".")
    )


def _file(path: Path, name: str) -> SourceFile:
    state = path.stat()
    return SourceFile(name, state.st_size, state.st_mtime_ns)


@cache
def _digest(path: Path, files: tuple[SourceFile, ...]) -> str:
    seen = hashlib.blake2b(digest_size=16)
    for one in files:
        seen.update(one.name.encode() + b"\0")
        with (path if path.is_file() else path / one.name).open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                seen.update(block)
    return seen.hexdigest()
