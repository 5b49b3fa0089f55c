"""Writes reports in a process of its own, which may fail in every way without harm to the one that serves."""
