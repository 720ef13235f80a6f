"""`agentrt kernels build`: the library by its path, or the reason why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.cli.main import answer


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that writes its arguments to the output."""
    script = tmp_path / "cxx"
    script.write_text('#!/bin/sh\nall="$*"\nwhile [ $# -gt 1 ]; do shift; done\necho "$all" > $1\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.usefixtures("compiler")
def test_builds_into_the_cache(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert answer(["kernels", "build"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.is_relative_to(tmp_path / "cache")
    assert "native" in path.read_text()


@pytest.mark.usefixtures("compiler")
def test_builds_for_an_image(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    image = tmp_path / "image"
    assert answer(["kernels", "build", "--processor", "x86-64-v3", "--folder", str(image)]) == 0
    printed = capsys.readouterr()
    assert "-march=x86-64-v3" in Path(printed.out.strip()).read_text()
    assert f"AGENTRT_KERNELS={image}" in printed.err


@pytest.mark.usefixtures("compiler")
def test_an_unknown_processor_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["kernels", "build", "--processor", "pentium"]) == 2
    assert "x86-64-v3" in capsys.readouterr().err


def test_the_missing_compiler_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert answer(["kernels", "build"]) == 3
    assert "no-such-compiler" in capsys.readouterr().err


@pytest.mark.usefixtures("compiler")
def test_a_folder_that_cannot_be_one_is_no_lack_of_a_compiler(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert answer(["kernels", "build", "--folder", str(tmp_path / "file")]) == 2
    told = capsys.readouterr().err
    assert "file is no folder" in told
    assert "compiler" not in told
