"""Admission of requests to one server: its queue, its rates and its room."""
