"""Exact response cache: answers of engines, kept for equal requests of later runs.

A key covers all that the answer depends on (`key`), a value is one complete answer (`answer`), and
a store keeps them (`store`; SQLite and Redis). `cache` calls the store from a thread of its own.
"""
