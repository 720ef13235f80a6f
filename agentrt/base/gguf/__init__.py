"""GGUF, llama.cpp's file of a whole model: its header, read without any other package."""
