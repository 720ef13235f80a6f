"""Requests of generate nodes: dispatch, results, coalescing, retries."""
