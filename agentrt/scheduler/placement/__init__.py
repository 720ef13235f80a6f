"""Placement of requests over the workers of a fleet."""
