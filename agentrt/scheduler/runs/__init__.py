"""Runs, their nodes, and the fair share of each tenant."""
