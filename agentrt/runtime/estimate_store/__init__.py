"""Persistence of learned quantities, in an SQLite file of the user's state directory.

`estimates_path` names the file. Light to import: SQLite itself is imported with the first file that
is opened.
"""

from agentrt.runtime.estimate_store.location import estimates_path
from agentrt.scheduler.estimates.row import EstimateRow

__all__ = ["EstimateRow", "estimates_path"]
