"""Puts the trainer's folder and the programs' on the path, as running them from there does."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
for folder in ("examples/embedded_model", "programs"):
    sys.path.insert(0, str(ROOT / folder))
