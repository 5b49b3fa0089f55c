"""Writes reports in a separate process, so that no failure can harm the serving process."""
