"""Answers of servers as they stream in: their text, their shape and their usage."""
