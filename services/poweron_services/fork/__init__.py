"""Forks: workflows that take what another one came to, up to one of its events, and decide anew from there."""
