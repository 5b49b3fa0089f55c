"""Forks: workflows that take over another workflow's events up to a given one and decide for themselves from there."""
