"""Metrics and probes on the door's own port; metrics need the scope `operate`, probes need no key."""

from fastapi import APIRouter, Request, Response

from poweron_services.door.access import Operator
from poweron_services.door.door_state import DoorOf

router = APIRouter()


@router.get("/metrics")
async def read_metrics(request: Request, door: DoorOf, _: Operator) -> Response:
    """Return all metrics of this process."""
    return await door.probes.metrics(request)


@router.get("/livez")
async def read_liveness(request: Request, door: DoorOf) -> Response:
    """Say whether the process works."""
    return await door.probes.livez(request)


@router.get("/readyz")
async def read_readiness(request: Request, door: DoorOf) -> Response:
    """Say whether the process takes requests."""
    return await door.probes.readyz(request)
