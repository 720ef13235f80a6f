"""Estimates from past runs: lengths, durations, call patterns."""
