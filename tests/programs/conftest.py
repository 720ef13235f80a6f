"""Puts the programs' folder on the path, as running them from there does."""

import sys
from pathlib import Path

PROGRAMS = Path(__file__).parents[2] / "programs"
sys.path.insert(0, str(PROGRAMS))
