"""Names of a package that are imported on first access.

A package of many modules would load all of them for the first name taken from it. Its `__init__`
names the module of each export instead; the same imports under `TYPE_CHECKING` give their types.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, exports: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package.

    The first imports the module of a name, and keeps the value; the second lists all names.

    Args:
        package: Name of the package.
        exports: Names that each module gives, in one text, by its path inside the package.

    Example:
        ```python
        if TYPE_CHECKING:
            from shop.cart import Cart as Cart, Item as Item

        __getattr__, __dir__ = lazy_exports(__name__, {"cart": "Cart Item"})
        ```
    """
    homes = {
        name: f"{package}.{module}" for module, names in exports.items() for name in names.split()
    }

    def get(name: str) -> Any:
        if name == "__all__":  # of `from package import *`
            return list(homes)
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(homes.keys() | vars(sys.modules[package]).keys())

    return get, names
