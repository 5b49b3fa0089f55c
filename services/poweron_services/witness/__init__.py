"""A witness as a small server of its own, which needs neither Kafka nor Postgres."""
