"""Synthetic transcripts of the programs: what the runtime would send, and what the model should answer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "programs"))  # whose tools make the results
