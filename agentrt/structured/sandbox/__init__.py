"""Compilation of constraints under limits, in a process that may be killed."""
