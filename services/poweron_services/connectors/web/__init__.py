"""The web, as far as it may be reached: every fetch goes through here."""
