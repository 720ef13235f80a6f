"""Files that hold a model's weights: those of a directory, or one GGUF file."""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".gguf"


def is_gguf(path: Path) -> bool:
    """Whether a path names a GGUF file, by its suffix."""
    return path.suffix.lower() == SUFFIX


def weight_files(path: Path) -> list[Path]:
    """Files with a model's weights, by name; [] if there are none."""
    files = [path] if is_gguf(path) else sorted(path.glob("*.safetensors"))
    return [file for file in files if file.is_file()]


def weight_bytes(path: Path) -> int:
    """Bytes of a model's weights as they are saved; 0 if there are none."""
    return sum(file.stat().st_size for file in weight_files(path))
