"""How often a round may ask the model at most: what its limits come to."""

ANSWERS = 2  # of each stage: the second one after it was shown why the first could not be used


def most_calls(*, tasks: int, max_steps: int, max_retries: int, calls_each: int = 1) -> int:
    """The calls of a round with so many tasks, where an action calls the model `calls_each` times.

    A plan; for each attempt at a task its plan of actions (or none), at each step a selection, parameters,
    the action and a refinement, and the review; at last the final message.
    """
    step = 3 * ANSWERS + calls_each
    attempt = ANSWERS + max_steps * step + ANSWERS
    return ANSWERS + tasks * (1 + max_retries) * attempt + 1
