"""Replay: what a decision saw, and whether it would be taken again, by the roles' own code on the recorded fold."""
