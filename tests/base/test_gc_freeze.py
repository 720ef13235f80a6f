"""What a process of our own has at its start is not looked through again."""

import subprocess
import sys

SCRIPT = """
import gc
import weakref

from agentrt.base.gc_freeze import freeze_gc


class Node:
    def __init__(self):
        self.itself = self


seen = len(gc.get_objects())
freeze_gc()
print(len(gc.get_objects()) < seen / 10)
later = weakref.ref(Node())
gc.collect()
print(later() is None)
"""


def test_only_what_comes_later_is_looked_through() -> None:
    """In a process of its own: what is settled stays so."""
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["True", "True"]
