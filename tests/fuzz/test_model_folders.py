"""Mutated model folders are loaded, or invalid in one typed error."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.rounds import cases

SCRIPT = Path(__file__).with_name("model_folders.py")
SHORT = 16


@pytest.mark.model
def test_a_mutated_folder_is_loaded_or_invalid() -> None:
    """In a process of their own, which may not die of one."""
    count = len(cases(SHORT))
    command = [sys.executable, str(SCRIPT), "0", str(count)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    wrong = [row for row in rows if row["end"] not in ("loaded", "invalid")]
    assert not wrong
    assert len(rows) == count, f"case {len(rows)} ended the process: {ended.stderr[-2_000:]}"
    assert min(Counter(row["end"] for row in rows).values()) > 0
