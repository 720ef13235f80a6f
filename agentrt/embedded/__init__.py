"""The model that comes with the package: a small chat model.

Data only: an ordinary Hugging Face directory, trained by `examples/embedded_model`; nothing here or
elsewhere in the runtime knows on what. Pass `--model PATH` or `--engine URL` for another.
"""

from pathlib import Path


def path() -> Path:
    """The directory of the embedded model."""
    return Path(__file__).parent
