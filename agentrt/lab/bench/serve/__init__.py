"""Measuring the server: its latency, its fairness, and its patience with half-open connections."""
