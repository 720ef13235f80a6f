"""From JSON that is being written to the text by which its value stands in a prompt."""
