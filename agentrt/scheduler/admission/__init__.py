"""Admission control: which runs may begin, by the KV budget."""
