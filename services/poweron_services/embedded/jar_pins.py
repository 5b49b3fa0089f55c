"""Rewrites `jars.sha256` after a version change: `python -m poweron_services.embedded.jar_pins`."""

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path

from jgo.parse import Endpoint

from poweron_services.embedded.jar_download import maven
from poweron_services.embedded.jars import PINNED

ENDPOINT = "org.apache.kafka:kafka_2.13:4.2.1+org.slf4j:slf4j-simple:1.7.36"
NEEDED = {"compile", "runtime"}


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        jars = {jar.relative_to(cache).as_posix(): jar for jar in _resolve(Path(cache))}
        lines = [f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {path}\n" for path, jar in sorted(jars.items())]
    PINNED.write_text("".join(lines))


def _resolve(cache: Path) -> list[Path]:
    context = maven(cache)
    dependencies = [
        context.create_dependency(replace(coordinate, scope="compile"))
        for coordinate in Endpoint.parse(ENDPOINT).coordinates
    ]
    direct, transitive = context.resolver.resolve(dependencies)
    required_dependencies = [*direct, *(dependency for dependency in transitive if dependency.scope in NEEDED)]
    return [dependency.artifact.resolve() for dependency in required_dependencies]


if __name__ == "__main__":
    main()
