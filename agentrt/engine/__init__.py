"""The embedded engine. The only room that imports torch and transformers."""
