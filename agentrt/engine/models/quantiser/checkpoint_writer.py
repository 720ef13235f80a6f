"""Writes a checkpoint directory, which appears under its name once it is whole.

Until then its files lie in a hidden folder beside it, and config.json comes last there, so that
nothing loads what an interrupted run leaves.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from agentrt.base.errors import UsageError

_SHARD_BYTES = 4 << 30
_COPIED_SUFFIXES = {".json", ".jinja", ".model", ".txt", ".tiktoken", ".md"}
_LEFT_OUT = {"config.json", "model.safetensors.index.json", "written.json", "README.md"}


class CheckpointWriter:
    """A checkpoint that is being written; use it in a `with` statement.

    Args:
        target: Directory that it becomes.
        shard_bytes: Bytes of tensors after which a file is closed.

    Attributes:
        written_bytes: Bytes of the tensors so far.

    Raises:
        UsageError: The directory exists, or its folder cannot be written.
    """

    def __init__(self, target: Path, *, shard_bytes: int = _SHARD_BYTES) -> None:
        refuse_existing(target)
        self._target = target
        self._shard_bytes = shard_bytes
        self._waiting: dict[str, Tensor] = {}
        self._waiting_bytes = 0
        self._shards: list[list[str]] = []
        self.written_bytes = 0
        self._draft = target.parent / f".{target.name}-{token_hex(4)}"
        with self._refusing():
            target.parent.mkdir(parents=True, exist_ok=True)
            self._draft.mkdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._draft, ignore_errors=True)

    def add(self, name: str, tensor: Tensor) -> None:
        """Add a tensor; it may be written at once."""
        self._waiting[name] = tensor.contiguous()
        self._waiting_bytes += tensor.nbytes
        self.written_bytes += tensor.nbytes
        if self._waiting_bytes >= self._shard_bytes:
            with self._refusing():
                self._close_shard()

    def finish(self, source: Path, config: dict[str, Any]) -> None:
        """Write the rest, and let the directory appear.

        Args:
            source: Checkpoint whose tokenizer, chat template and licence are copied.
            config: The `config.json`.
        """
        with self._refusing():
            self._close_shard()
            self._name_shards()
            for file in sorted(source.iterdir()):
                if _is_copied(file):
                    shutil.copy(file, self._draft / file.name)
            text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
            (self._draft / "config.json").write_text(text, "utf-8")
            refuse_existing(self._target)
            self._draft.rename(self._target)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Tell why nothing can be written there: rights, room, a file in the way."""
        try:
            yield
        except (OSError, SafetensorError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                f"{self._target} cannot be written: {reason}",
                hint="Name a folder of your own with room for the checkpoint",
            ) from None

    def _close_shard(self) -> None:
        if self._waiting:
            file = self._draft / f"{len(self._shards)}.safetensors"
            save_file(self._waiting, file, metadata={"format": "pt"})
            file.chmod(self._draft.stat().st_mode & 0o666)  # as all files here, by the umask
            self._shards.append(list(self._waiting))
            self._waiting, self._waiting_bytes = {}, 0

    def _name_shards(self) -> None:
        """Give the files their usual names, which tell how many there are."""
        count = len(self._shards)
        places: dict[str, str] = {}
        for number, names in enumerate(self._shards):
            name = f"model-{number + 1:05}-of-{count:05}.safetensors"
            name = name if count > 1 else "model.safetensors"
            (self._draft / f"{number}.safetensors").rename(self._draft / name)
            places |= dict.fromkeys(names, name)
        if count > 1:
            index = {"metadata": {"total_size": self.written_bytes}, "weight_map": places}
            text = json.dumps(index, indent=2)
            (self._draft / "model.safetensors.index.json").write_text(text, "utf-8")


def refuse_existing(target: Path) -> None:
    """Check that nothing would be overwritten.

    Raises:
        UsageError: The directory exists.
    """
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} exists", hint="Name a new directory; nothing is overwritten")


def _is_copied(file: Path) -> bool:
    if not file.is_file() or file.name in _LEFT_OUT:
        return False
    named = file.name.upper().startswith(("LICENSE", "LICENCE", "NOTICE"))
    return named or file.suffix in _COPIED_SUFFIXES
