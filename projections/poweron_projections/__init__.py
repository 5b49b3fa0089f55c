"""The rows that the log of PowerOn adds up to, in Postgres: projector, reader, rebuild, verify."""
