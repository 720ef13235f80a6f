"""Scheduling policies: which waiting request goes first. Each is pure and a file of its own."""
