"""What the log of PowerOn adds up to, as rows in Postgres: projector, reader, rebuild, verify."""
