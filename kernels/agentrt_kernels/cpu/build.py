"""Compiling the native code once, and finding it again: in the user's cache, or as shipped.

A library lies under a hash of all that it depends on: sources, flags and processor. The compiler is
no part of it, so that a machine without one finds what another has compiled for it. Nothing is ever
written beside the package.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentrt_kernels.contract import KernelsUnavailable
from agentrt_kernels.cpu.processor import Target, native_target, runnable_levels

SOURCES = Path(__file__).parent / "source"
_FLAGS = (
    "-O2",
    "-std=c++17",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=fast",
    "-pthread",
    "-w",
)
_COMPILE_S = 300.0
_COMPILERS = ("c++", "g++", "clang++")


def library(native: Target | None = None) -> Path:
    """The compiled library of this machine, compiled now if there is none for its processor.

    Args:
        native: The processor; None is the one at hand.

    Raises:
        KernelsUnavailable: There is no compiler, or it failed, or the cache is not safe to use,
            and no library for a level of the processor is there instead.
    """
    native = native or native_target()
    found = _find(native)
    if found is not None:
        return found
    try:
        return compiled(native, cache_folder())
    except KernelsUnavailable:
        for level in runnable_levels(native.features):
            found = _find(level)
            if found is not None:
                return found
        raise


def compiled(target: Target, root: Path, *, anew: bool = False) -> Path:
    """The library for `target` in the folder `root`, compiled if it is missing.

    Args:
        target: Processors that run it.
        root: Folder of libraries.
        anew: Compile it also if it is there, for example by a newer compiler.

    Raises:
        KernelsUnavailable: There is no compiler, or it failed, or the folder is not safe to use.
    """
    if platform.system() not in ("Linux", "Darwin"):
        raise KernelsUnavailable(f"the native kernels do not build on {platform.system()}")
    compiler = find_compiler()
    path = _place(target, root)
    try:
        _private_folder(path.parent)
        with _locked(path.parent / "lock"):
            if anew or not path.is_file():  # another process may have been quicker
                compile_library(compiler, (*_FLAGS, *target.flags), path)
    except OSError as error:
        raise KernelsUnavailable(f"the native kernels cannot be cached: {error}") from error
    _check_owner(path)
    return path


def _find(target: Target) -> Path | None:
    """The library for `target` if it is cached or shipped.

    Raises:
        KernelsUnavailable: Other users can write the library that is there.
    """
    for root in (cache_folder(), *shipped_folders()):
        path = _place(target, root)
        if path.is_file():
            _check_owner(path)
            return path
    return None


def _place(target: Target, root: Path) -> Path:
    return root / fingerprint(target) / "native.so"


def find_compiler() -> Path:
    """`$CXX`, or the first C++ compiler in `PATH`.

    Raises:
        KernelsUnavailable: There is none.
    """
    named = os.environ.get("CXX", "")
    for name in (named,) if named else _COMPILERS:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    what = f"$CXX names {named!r}, which is not there" if named else "no C++ compiler in PATH"
    raise KernelsUnavailable(f"{what} (looked for {', '.join(_COMPILERS)})")


def compile_library(compiler: Path, flags: tuple[str, ...], target: Path) -> None:
    """Compile to `target`, which appears whole or not at all.

    Raises:
        KernelsUnavailable: The compiler failed; the message ends with its first error.
    """
    handle, name = tempfile.mkstemp(suffix=".so", dir=target.parent)
    os.close(handle)
    try:
        command = [str(compiler), *flags, str(SOURCES / "native.cpp"), "-o", name]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILE_S, check=False
        )
        if done.returncode != 0:
            raise KernelsUnavailable(f"{compiler} failed: {_first_error(done.stderr)}")
        os.chmod(name, 0o700)
        os.replace(name, target)
    except subprocess.TimeoutExpired as error:
        message = f"{compiler} took longer than {_COMPILE_S:.0f} s"
        raise KernelsUnavailable(message) from error
    finally:
        Path(name).unlink(missing_ok=True)


def fingerprint(target: Target) -> str:
    """A hash of all that the library depends on."""
    seen = hashlib.blake2b(digest_size=12)
    for source in sorted(SOURCES.iterdir()):
        if source.suffix in (".h", ".cpp"):
            seen.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    for part in (*_FLAGS, *target.flags, platform.system(), platform.machine(), target.features):
        seen.update(part.encode() + b"\0")
    return seen.hexdigest()


def shipped_folders() -> tuple[Path, ...]:
    """The folder that `$AGENTRT_KERNELS` names, if it does: libraries of an image."""
    named = os.environ.get("AGENTRT_KERNELS", "")
    return (Path(named),) if named else ()


def cache_folder() -> Path:
    """The folder of this user's libraries; one in the system's temporary folder without a home."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(root):  # XDG ignores relative paths
        return Path(root) / "agentrt" / "native"
    try:
        return Path.home() / ".cache" / "agentrt" / "native"
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"agentrt-native-{os.getuid()}"


def _private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(folder)


def _check_owner(path: Path) -> None:
    """Refuse a path that users other than this one and root can write: it would be loaded.

    Raises:
        KernelsUnavailable: Other users can write it, or it cannot be read.
    """
    try:
        state = path.stat()
    except OSError as error:
        raise KernelsUnavailable(f"{path} cannot be read: {error}") from error
    if state.st_uid not in (os.getuid(), 0) or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise KernelsUnavailable(f"others than you can write {path}: remove it, or chmod go-w")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process compiles, others wait for it."""
    with open(path, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _first_error(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line.lower()] or text.splitlines()
    return lines[0][:300] if lines else "it said nothing"
