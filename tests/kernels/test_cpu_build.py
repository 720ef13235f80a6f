"""The native library: built once, whole or not at all, and never loaded where others can write."""

import os
import stat
import threading

import pytest

from agentrt_kernels import load
from agentrt_kernels.contract import KernelsUnavailable
from agentrt_kernels.cpu import build, library


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "agentrt" / "native"


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A compiler that counts how often it is called and writes something."""
    calls = tmp_path / "calls"
    script = tmp_path / "cxx"
    script.write_text(
        f"#!/bin/sh\necho called >> {calls}\nwhile [ $# -gt 1 ]; do shift; done\necho code > $1\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return calls


def test_without_a_compiler_the_reason_is_told(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(KernelsUnavailable, match="no C\\+\\+ compiler in PATH"):
        build.library()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(KernelsUnavailable, match=r"\$CXX names 'no-such-compiler'"):
        build.library()


def test_loading_the_set_tells_it_too(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    library.native.cache_clear()
    with pytest.raises(KernelsUnavailable, match="no C\\+\\+ compiler"):
        load("cpu")
    library.native.cache_clear()


def test_a_library_is_compiled_once(cache, compiler):
    first = build.library()
    assert build.library() == first
    assert compiler.read_text().splitlines() == ["called"]
    assert first.parent.parent == cache
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
    assert {file.name for file in first.parent.iterdir()} == {"native.so", "lock"}


def test_two_at_once_compile_once(cache, compiler):
    threads = [threading.Thread(target=build.library) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiler.read_text().splitlines() == ["called"]


def test_other_flags_or_another_compiler_make_another_library(cache, compiler, tmp_path):
    one = build.fingerprint(build.find_compiler(), ("-O2",))
    assert build.fingerprint(build.find_compiler(), ("-O3",)) != one
    other = tmp_path / "other"
    other.write_text("another one")
    assert build.fingerprint(other, ("-O2",)) != one


def test_a_compiler_that_fails_leaves_nothing_behind(cache, compiler, tmp_path):
    script = tmp_path / "cxx"
    script.write_text("#!/bin/sh\necho 'native.cpp:1: error: no such thing' >&2\nexit 1\n")
    with pytest.raises(KernelsUnavailable, match="error: no such thing"):
        build.library()
    left = [file.name for folder in cache.iterdir() for file in folder.iterdir()]
    assert left == ["lock"]


def test_a_library_that_others_can_write_is_not_loaded(cache, compiler):
    made = build.library()
    made.chmod(0o722)
    with pytest.raises(KernelsUnavailable, match="others than you can write"):
        build.library()


def test_a_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch, compiler):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.raises(KernelsUnavailable, match="cannot be cached"):
        build.library()


def test_what_is_no_library_is_refused(cache, compiler):
    with pytest.raises(KernelsUnavailable, match="cannot be loaded"):
        library.Native(build.library())


def test_without_a_cache_variable_the_home_is_used(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/somewhere")
    assert build.cache_folder() == type(build.SOURCES)("/somewhere/.cache/agentrt/native")
    assert os.path.isabs(build.cache_folder())
