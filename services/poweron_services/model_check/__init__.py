"""A check of how well a model serves each stage: small cases whose right answer is known."""
