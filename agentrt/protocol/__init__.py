"""Contracts between runtime and engines: plain frozen values and their wire format."""
