"""Work, counted in lines of code that run: what stands for time where a test judges cost."""

import sys
from collections import Counter
from types import FrameType
from typing import Any


class Lines:
    """Counts the lines that run in a part of the package while it is entered, loops included.

    Gives them by the name of their function.

    Args:
        part: A folder or a file of the package, as "scheduler" or "tools/schema.py".
    """

    def __init__(self, part: str) -> None:
        self.found: Counter[str] = Counter()
        self._part = f"/agentrt/{part}"

    def __call__(self, frame: FrameType, what: str, argument: object) -> Any:
        if self._part not in frame.f_code.co_filename:
            return None
        if what == "line":
            self.found[frame.f_code.co_name] += 1
        return self

    def __enter__(self) -> Counter[str]:
        sys.settrace(self)
        return self.found

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)
