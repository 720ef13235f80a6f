"""EAGLE-3 heads: draft models of one layer that take the states of their target's layers."""
