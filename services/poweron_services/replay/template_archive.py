"""The templates of earlier releases by their hash, to render again what these releases showed to a model."""

from functools import cache
from pathlib import Path
from typing import Final

from poweron_services import actions, roles
from poweron_services.models.prompts import Template

RELEASED: Final = {
    "0.1.0": (
        "message.v1.md",
        "parameterizer.v1.md",
        "planner.v1.md",
        "process.v1.md",
        "refiner.v1.md",
        "reviewer.v1.md",
        "selector.v1.md",
    ),
    "0.2.0": (
        "actions.v1.md",
        "message.v2.md",
        "parameterizer.v2.md",
        "planner.v2.md",
        "process.v2.md",
        "refiner.v2.md",
        "reviewer.v2.md",
        "selector.v2.md",
    ),
    "0.3.0": (
        "actions.v2.md",
        "message.v3.md",
        "parameterizer.v2.md",
        "planner.v3.md",
        "refiner.v4.md",
        "reviewer.v3.md",
        "selector.v3.md",
    ),
}
"""The templates of each earlier release that are no longer in use, by version; their files must not change."""


@cache
def released_template(sha256: str) -> Template | None:
    """Return the template of an earlier release with this hash, or None."""
    return _by_hash().get(sha256)


@cache
def _by_hash() -> dict[str, Template]:
    names = {name for of_release in RELEASED.values() for name in of_release}
    folders = [Path(path) for package in (roles, actions) for path in package.__path__]
    files = sorted(file for folder in folders for file in folder.glob("*.v*.md") if file.name in names)
    templates = (Template(file.name, file.read_text(encoding="utf-8")) for file in files)
    return {template.sha256: template for template in templates}


@cache
def release_of(sha256: str) -> str | None:
    """Return the last release that had the template with this hash; None if no earlier release had it."""
    template = _by_hash().get(sha256)
    return max((release for release, names in RELEASED.items() if template and template.name in names), default=None)
