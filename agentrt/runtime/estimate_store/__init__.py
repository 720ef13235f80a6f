"""What outlives a run, in SQLite files of the user's state directory.

`row` is what is kept, `place` where, `estimates` the file of learned quantities. Light to import:
SQLite itself comes with the first file that is opened.
"""

from agentrt.runtime.estimate_store.location import estimates_path
from agentrt.scheduler.estimates.row import EstimateRow

__all__ = ["EstimateRow", "estimates_path"]
