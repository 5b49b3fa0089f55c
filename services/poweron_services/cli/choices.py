"""The choices: what an argument of a command takes where it takes one of a few words. It imports nothing slow."""

from enum import StrEnum


class Measured(StrEnum):
    """What can be measured by itself."""

    ask = "ask"
    documents = "documents"
    latency = "latency"
    throughput = "throughput"
    growth = "growth"
    history = "history"
    rebuild = "rebuild"


class ExportFormat(StrEnum):
    """How a workflow is handed to other tools."""

    events = "events"
    otel = "otel"
    openinference = "openinference"


class Mode(StrEnum):
    """How a task's actions are chosen: one at a time, or all at once (deprecated)."""

    React = "React"
    Actionplan = "Actionplan"


class PlayedRole(StrEnum):
    """What a process can be told to do."""

    intake = "intake"
    planner = "planner"
    selector = "selector"
    parameterizer = "parameterizer"
    executor = "executor"
    observer = "observer"
    refiner = "refiner"
    reviewer = "reviewer"
    projector = "projector"
