"""Measuring the engine: against what the machine allows, and against peers on the same weights.

Nothing here imports torch. An arm, ours or a peer's, is a process of its own with its own
environment; the bench sends it work, and everything else that it started stands still meanwhile.
"""
