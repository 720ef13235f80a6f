"""Patterns of forms as grammars of llama.cpp."""

import sys
from pathlib import Path
from subprocess import run

import pytest

import agentrt.lab.arms
from agentrt.lab.workloads.text import KeySpeller

PEERS = Path(agentrt.lab.arms.__file__).parent / "peers"
SCRIPT = "import sys; from gbnf import gbnf_of; print(gbnf_of(sys.argv[1]))"


def gbnf_of(pattern: str) -> str:
    """As a peer has it: without anything of agentrt."""
    done = run(
        [sys.executable, "-S", "-c", SCRIPT, pattern],
        cwd=PEERS, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_text_is_quoted_and_groups_stay() -> None:
    words = KeySpeller([f" {a}{b}a" for a in "abcd" for b in "abcd"])
    pattern = words.pattern("key", 9, 3)
    grammar = gbnf_of(pattern)
    given, _, group = pattern.partition("(")
    assert grammar == f'root ::= "{given}" (" " {group.removeprefix(" ")}'
    assert gbnf_of(" a( [a-z]{3}){2} b") == 'root ::= " a" (" " [a-z]{3}){2} " b"'


@pytest.mark.parametrize("pattern", [" a|b", " (a)", "x*"])
def test_a_pattern_of_anything_else_is_refused(pattern: str) -> None:
    assert "is no plain text" in gbnf_of(pattern)
