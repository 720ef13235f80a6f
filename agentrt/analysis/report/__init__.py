"""The report of one run: a page that needs nothing beside it."""
