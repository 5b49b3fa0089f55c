"""What a model is good for: small cases of every stage with a known right answer."""
