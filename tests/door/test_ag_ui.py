"""A workflow as AG-UI events: as that protocol's own models and rules have them, from the start or from any record."""

from collections.abc import Iterable, Sequence

import pytest
from ag_ui import core
from pydantic import TypeAdapter

from builders import (
    At,
    Told,
    cancellation,
    completed,
    follow_up,
    next_events,
    planned,
    requested,
    reviewed,
    step,
    typical,
)
from poweron_events import topics
from poweron_events.log.memory import MemoryLog
from poweron_events.round_events import RoundCancelled, RoundFailed, Totals
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_projections import reader
from poweron_services.door.ag_ui_events import AgUiView, RunEvents
from poweron_services.door.record_rows import Batch, StreamRecord
from poweron_services.settings.config import Settings
