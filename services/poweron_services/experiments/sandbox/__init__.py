"""Servers and child processes of one run of `chaos` or `bench`, separate from the user's."""
