"""The native library: built once, whole or not at all, and never loaded where others can write."""

import os
import stat
import threading

import pytest

from agentrt_kernels import load
from agentrt_kernels.contract import KernelsUnavailable
from agentrt_kernels.cpu import build, library, processor
from agentrt_kernels.cpu.processor import Target, level_target, native_target


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


def test_another_processor_makes_another_library(cache):
    native = build.fingerprint(Target("native", ("-march=native",), "sse2"))
    assert build.fingerprint(Target("native", ("-march=native",), "sse2 avx")) != native
    assert build.fingerprint(Target("native", ("-mcpu=native",), "sse2")) != native
    slow = Target("native", ("-march=native", processor.SLOW_BF16_DOT), "sse2")
    assert build.fingerprint(slow) != native
    assert build.fingerprint(level_target("x86-64-v3")) != native


def test_a_cached_library_needs_no_compiler(cache, compiler, monkeypatch):
    made = build.library()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.library() == made


def test_a_shipped_library_needs_no_compiler(cache, compiler, monkeypatch, tmp_path):
    made = build.compiled(native_target(), tmp_path / "image")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(KernelsUnavailable, match="no-such-compiler"):
        build.library()
    monkeypatch.setenv("AGENTRT_KERNELS", str(tmp_path / "image"))
    assert build.library() == made


def test_a_level_that_the_processor_runs_serves_without_a_compiler(
    cache, compiler, monkeypatch, tmp_path
):
    image = tmp_path / "image"
    made = {level: build.compiled(level_target(level), image) for level in processor.LEVELS}
    native = Target("native", ("-march=native",), " ".join(processor.LEVELS["x86-64-v3"]))
    monkeypatch.setenv("AGENTRT_KERNELS", str(image))
    with monkeypatch.context() as bare:
        bare.setenv("CXX", "no-such-compiler")
        assert build.library(native) == made["x86-64-v3"]
    assert build.library(native).is_relative_to(cache), "a compiler makes the one that uses all"


def test_a_library_is_compiled_anew_where_that_is_wanted(cache, compiler):
    made = build.library()
    made.write_text("of an older compiler")
    assert build.compiled(native_target(), cache) == made
    assert made.read_text() == "of an older compiler"
    build.compiled(native_target(), cache, anew=True)
    assert made.read_text() == "code\n"


@pytest.mark.parametrize(
    ("features", "names"),
    [
        pytest.param("", [], id="none"),
        pytest.param(" ".join(processor.LEVELS["x86-64-v3"]), ["x86-64-v3"], id="v3"),
        pytest.param(
            " ".join(processor.LEVELS["x86-64-v4"]) + " amx_tile",
            ["x86-64-v4", "x86-64-v3"],
            id="v4 and more",
        ),
    ],
)
def test_a_processor_runs_the_levels_whose_features_it_has(features, names):
    assert [target.name for target in processor.runnable_levels(features)] == names


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


@pytest.mark.parametrize("named", ["", "here"])  # nothing, and a path that XDG ignores
def test_without_a_cache_variable_the_home_is_used(named, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    monkeypatch.setenv("HOME", "/somewhere")
    assert build.cache_folder() == type(build.SOURCES)("/somewhere/.cache/agentrt/native")
    assert os.path.isabs(build.cache_folder())


def test_the_sources_compile_where_there_is_a_compiler():
    """Tests of the native set are skipped without a library, whatever the reason is."""
    try:
        build.find_compiler()
    except KernelsUnavailable as error:
        pytest.skip(str(error))
    assert build.library().is_file()
