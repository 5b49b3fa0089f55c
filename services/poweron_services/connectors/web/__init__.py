"""Guarded access to the web: every fetch goes through this package."""
