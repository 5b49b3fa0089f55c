"""The log of PowerOn as rows in Postgres: projector, reader, rebuild, verify."""
