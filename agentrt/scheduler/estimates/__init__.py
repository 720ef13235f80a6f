"""What past runs teach: lengths, durations, call patterns."""
