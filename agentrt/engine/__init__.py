"""The embedded engine. The only package that imports torch. `core` is its loop."""
