"""What a stream of events adds up to; pure."""
