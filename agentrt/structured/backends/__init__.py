"""Grammars compiled by llguidance and outlines-core."""
