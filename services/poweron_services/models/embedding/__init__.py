"""Texts as vectors that are near one another where they mean the same."""
