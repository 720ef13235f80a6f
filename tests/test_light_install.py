"""A light install runs programs on remote engines, tests them, and names what it lacks."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentrt.base.engine_extra import ENGINE_PACKAGES
from tests.light_install import ABSENT, ORDER
from tests.syntax import ROOT
from tests.test_dependencies import PROJECT, name_of

SCRIPT = ROOT / "tests" / "light_install.py"
MOST_SITE_BYTES = 200_000_000
BESIDE = {"triton"}
"""What comes with some builds of torch."""


def found_by(python: Path, mode: str, state: Path, **more: str) -> Any:
    """What the script finds, run by an interpreter."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("AGENTRT_")}
    environment = own | {"XDG_STATE_HOME": str(state), "XDG_CONFIG_HOME": str(state)} | more
    done = subprocess.run(
        [python, SCRIPT, mode],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(found: Any) -> None:
    assert found["importable"] == []
    for name in ("known", "unknown"):
        assert found[name] == {"code": 0, "out": ORDER + "\n", "err": ""}
    assert found["requests"] == ["POST /v1/chat/completions"]  # none to open a known kind
    assert found["tested"] == ORDER
    assert found["python"].startswith("the embedded engine needs torch, ")
    for command, told in found["refused"].items():
        (line,) = told["err"].splitlines()
        assert line.startswith("error: NotInstalled: "), command
        assert "where: " in line
        assert "fix: pip install 'agentrt[engine]'" in line
        assert told["code"] == 3, command
        assert told["out"] == "", command
    assert found["doctor"]["code"] == 3
    assert "not installed: torch" in found["doctor"]["out"]
    assert "pip install 'agentrt[engine]'" in found["doctor"]["out"]
    for command, told in found["without an engine"].items():
        assert told["code"] == 0, (command, told["err"])
    assert found["doctor --engine"]["code"] == found["engines"]["code"] == 0
    told = json.dumps(found)
    assert "Traceback" not in told
    heavy = {name for name in found["modules"] if name.partition(".")[0] in ABSENT}
    assert not heavy


def test_without_the_engines_packages(tmp_path: Path) -> None:
    path = os.pathsep.join(str(one) for one in (ROOT, ROOT / "kernels"))
    check(found_by(Path(sys.executable), "hidden", tmp_path, PYTHONPATH=path))


def test_the_guard_knows_all_packages_of_the_extra() -> None:
    extra = {name_of(one) for one in PROJECT["optional-dependencies"]["engine"]}
    assert set(ENGINE_PACKAGES) == extra
    assert set(ABSENT) == extra | BESIDE


@pytest.mark.slow
def test_a_fresh_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`pip install` of this tree without extras, into an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "light"], check=True, timeout=120)
    python = tmp_path / "light" / "bin" / "python"
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, ROOT, "-c", ROOT / "constraints.txt"], check=True, timeout=600)
    found = found_by(python, "installed", tmp_path, PYTHONPATH="")
    check(found)
    with capsys.disabled():
        print(f"\nsite-packages of a light install: {found['site_bytes'] / 1e6:.0f} MB")
    assert found["site_bytes"] <= MOST_SITE_BYTES
