"""The policies: which of the work that waits goes first. Each is pure and a file of its own."""
