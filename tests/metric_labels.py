"""The labels that metrics may have."""

LABELS = {
    "code",
    "group",
    "kind",
    "le",
    "method",
    "model",
    "phase",
    "python",
    "release",
    "role",
    "route",
    "server",
    "stage",
    "status",
    "topic",
    "type",
    "verdict",
}
"""Those that may be used: each has few values, whatever is written into the log."""
