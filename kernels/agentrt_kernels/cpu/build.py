"""Compiling the native code once for this machine, and finding it again.

The library lies in the user's cache under a hash of all that it depends on: sources, flags,
compiler and processor. Nothing is ever written beside the package.
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


def library() -> Path:
    """The compiled library of this machine, compiled now if it was not before.

    Raises:
        KernelsUnavailable: There is no compiler, or it failed, or the cache is not safe to use.
    """
    if platform.system() not in ("Linux", "Darwin"):
        raise KernelsUnavailable(f"the native kernels do not build on {platform.system()}")
    compiler = find_compiler()
    flags = (*_FLAGS, _native_flag())
    folder = cache_folder() / fingerprint(compiler, flags)
    target = folder / "native.so"
    if not target.is_file():
        try:
            _private_folder(folder)
            with _locked(folder / "lock"):
                if not target.is_file():  # another process may have been quicker
                    compile_library(compiler, flags, target)
        except OSError as error:
            raise KernelsUnavailable(f"the native kernels cannot be cached: {error}") from error
    _check_owner(target)
    return target


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


def fingerprint(compiler: Path, flags: tuple[str, ...]) -> str:
    """A hash of all that the library depends on."""
    seen = hashlib.blake2b(digest_size=12)
    for source in sorted(SOURCES.iterdir()):
        if source.suffix in (".h", ".cpp"):
            seen.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    state = compiler.resolve().stat()
    compiler_is = f"{compiler.resolve()} {state.st_size} {state.st_mtime_ns}"
    for part in (*flags, compiler_is, platform.machine(), _processor()):
        seen.update(part.encode() + b"\0")
    return seen.hexdigest()


def cache_folder() -> Path:
    """The folder of this user's libraries; one in the system's temporary folder without a home."""
    root = os.environ.get("XDG_CACHE_HOME") or ""
    if root:
        return Path(root) / "agentrt" / "native"
    try:
        return Path.home() / ".cache" / "agentrt" / "native"
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"agentrt-native-{os.getuid()}"


def _native_flag() -> str:
    return "-march=native" if platform.machine() in ("x86_64", "i686", "AMD64") else "-mcpu=native"


def _processor() -> str:
    """The processor's features: a home may be shared by several machines."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(("flags", "Features")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def _private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(folder)


def _check_owner(path: Path) -> None:
    """Refuse a path that other users can write: it would be loaded into this process.

    Raises:
        KernelsUnavailable: Other users can write it, or it cannot be read.
    """
    try:
        state = path.stat()
    except OSError as error:
        raise KernelsUnavailable(f"{path} cannot be read: {error}") from error
    if state.st_uid != os.getuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
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
