"""Reservation: the most that a model call may use, recorded before the call where a budget applies."""

from poweron_events.event import NanoUsd, Number, Tokens
from poweron_events.outcome import StageEvent


class CallReserved(StageEvent):
    """A model is about to be called, and this is the most that the call may use of the budgets.

    It counts as used until an accepted event reports the call; a call that is never reported has used its maximum.
    """

    reservation: Number
    input_tokens: Tokens
    output_tokens: Tokens
    cost_nano_usd: NanoUsd
