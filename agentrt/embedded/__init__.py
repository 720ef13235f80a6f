"""The models that come with the package: a small chat model, and a smaller one to draft for it.

Data only. Both are ordinary Hugging Face directories, trained by `examples/embedded_model`; nothing
here or elsewhere in the runtime knows on what. Pass `--model PATH` or `--engine URL` for another.
"""

from pathlib import Path


def path() -> Path:
    """The directory of the embedded model."""
    return Path(__file__).parent


def draft_path() -> Path:
    """The directory of its draft model, which shares the tokenizer."""
    return Path(__file__).parent / "draft"
