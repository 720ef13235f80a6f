"""Measuring structured output: what compiles, what is let through, what a mask costs.

Arms are processes that answer lines of JSON, as for the engine. Each gets the same vocabulary and
the same token ids, which are spelled here once.
"""
