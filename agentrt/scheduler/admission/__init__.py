"""Admission control of runs against the KV budget."""
