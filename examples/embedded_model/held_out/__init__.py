"""Questions that the corpus never shows."""
