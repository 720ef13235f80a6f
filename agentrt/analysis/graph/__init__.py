"""Graphs of programs and runs, and the forms in which they are drawn."""
