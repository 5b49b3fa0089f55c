"""A workflow as AG-UI events: as that protocol's own models and rules have them, from the start or from any record."""
