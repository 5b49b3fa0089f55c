"""Replay: what a decision saw, and whether the roles' own code would make it again in the recorded state."""
