"""The enumerations that arguments of commands accept. Imports nothing slow."""

from enum import StrEnum


class Measured(StrEnum):
    """The parts that can be measured separately."""

    ask = "ask"
    documents = "documents"
    latency = "latency"
    throughput = "throughput"
    growth = "growth"
    history = "history"
    rebuild = "rebuild"


class ExportFormat(StrEnum):
    """The formats in which a workflow is exported to other tools."""

    events = "events"
    otel = "otel"
    openinference = "openinference"


class Mode(StrEnum):
    """How a task's actions are chosen: one at a time, or all at once (deprecated)."""

    React = "React"
    Actionplan = "Actionplan"


class PlayedRole(StrEnum):
    """The roles that a process can play."""

    intake = "intake"
    planner = "planner"
    selector = "selector"
    parameterizer = "parameterizer"
    executor = "executor"
    observer = "observer"
    refiner = "refiner"
    reviewer = "reviewer"
    projector = "projector"
