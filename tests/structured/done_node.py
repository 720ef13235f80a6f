"""A node that is done, as a source of options."""

from collections.abc import Iterable
from typing import Any


class DoneNode:
    """Gives its options at once, although they count as options that come later."""

    done = True

    def __init__(self, options: Iterable[Any]) -> None:
        self.options = tuple(options)

    def held_options(self) -> tuple[Any, ...]:
        return self.options
