"""How fast PowerOn is on this machine, beside what Kafka and Postgres can do at best in the same run.

Ours is the real thing: real servers of its own, all roles in one process or in several, the projector in another,
prompts and answers in the content store. Only the model and the action answer at once, so that nothing but PowerOn is
measured.
"""
