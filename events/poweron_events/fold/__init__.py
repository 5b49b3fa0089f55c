"""Folds: pure functions that turn a stream of events into state."""
