"""Tensors of a checkpoint directory, read by name: memory holds those in use alone."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError, safe_open
from torch import Tensor

from agentrt.base.errors import ModelInvalid
from agentrt.base.model_json import unreadable
from agentrt.engine.models.checkpoint import shards


class SourceCheckpoint:
    """A checkpoint whose files stay open; use it in a `with` statement.

    Args:
        path: Directory with safetensors.

    Attributes:
        names: Names of its tensors, file by file.

    Raises:
        ModelInvalid: A file is missing or broken.
    """

    def __init__(self, path: Path) -> None:
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}
        self._places: dict[str, Path] = {}
        for shard in shards(path):
            try:
                opened: Any = self._stack.enter_context(safe_open(shard, framework="pt"))
            except (OSError, SafetensorError) as error:
                self._stack.close()
                raise _broken(shard, error) from error
            self._files |= dict.fromkeys(opened.keys(), opened)
            self._places |= dict.fromkeys(opened.keys(), shard)
        self.names = tuple(self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def tensor(self, name: str) -> Tensor:
        """The tensor of a name, in its stored type.

        Raises:
            ModelInvalid: The file is broken.
        """
        try:
            found: Tensor = self._files[name].get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise _broken(self._places[name], error) from error
        return found


def _broken(shard: Path, error: Exception) -> ModelInvalid:
    return unreadable(shard, error, hint="Copy the checkpoint again: it is not whole")
