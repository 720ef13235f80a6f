"""Tuning: the configuration of lowest latency that keeps an evaluation's limits."""
