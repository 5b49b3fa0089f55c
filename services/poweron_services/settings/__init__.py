"""Settings: environment variables, files of secrets, and what they allow."""
