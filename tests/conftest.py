"""What all tests stand on: patience with a busy machine, logging of their own, and real servers where they need them.

One pair of servers serves a whole process; each test has topics and rows of its own.
"""

import faulthandler
import gc
import logging
import os
import signal
import ssl
import sys
import uuid
from collections.abc import AsyncGenerator, Generator
from dataclasses import replace
from functools import cache
from pathlib import Path

import httpcore2
import pytest
import structlog
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings
from s3 import S3, s3_server
from servers import CHOICES, FirstRun, Pair, chosen_servers, empty_database, run_outside, with_empty_data

from poweron_events.log.kafka_settings import KafkaSettings

CLOSING_TIMEOUT = 120.0  # seconds


def pytest_configure() -> None:
    """Before any test is read, since each takes the settings of hypothesis as they are then."""
    # A run in the background ignores Ctrl-C, and so would every command that it starts and interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Where no bytecode may be kept, each command that a test starts compiles all modules, which takes over half its time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    settings.register_profile("patient", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")  # how long an example takes says how busy the machine is, and nothing of ours


@pytest.fixture(scope="session", autouse=True)
def _certificates_read_once() -> Generator[None, None, None]:
    """Every client that is opened reads the certificates of this machine, and the tests open thousands of them."""
    read = httpcore2.default_ssl_context

    @cache
    def context(_: tuple[str | None, ...], **options: bool) -> ssl.SSLContext:
        return read(**options)

    def kept(**options: bool) -> ssl.SSLContext:
        return context(tuple(map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR"))), **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", kept)
        yield


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: the garbage collector, which took an eighth of the time, skips them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """End the process where what a failed test used is never closed: from here on no other time limit holds."""
    if isinstance(node, pytest.Item):
        stderr = node.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(CLOSING_TIMEOUT, exit=True, file=stderr)


@pytest.fixture(autouse=True)
def _logging_as_before() -> Generator[None, None, None]:
    """Commands set up logging, and the library does where nobody has; the next test has its own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def s3_at() -> Generator[S3, None, None]:
    """An S3 server for all tests of this process."""
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(s3_at: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """The same, for a test whose environment says how it is reached."""
    for name, value in s3_at.environment.items():
        monkeypatch.setenv(name, value)
    return s3_at


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> FirstRun:
    """The first of all runs of embedded servers, for all processes of these tests."""
    base = tmp_path_factory.getbasetemp()
    run = FirstRun((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(run.user))
        for name in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "M2_REPO", "JGO_CACHE_DIR"):
            patch.delenv(name, raising=False)
        run_outside(run.happen())
    return run


@pytest.fixture(scope="session")
def software(first_run: FirstRun) -> Path:
    """What embedded servers are made of, for all data directories."""
    return first_run.software


@pytest.fixture(scope="session")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Pair, None, None]:
    """A Kafka and a Postgres for all tests of this process."""
    choice, home = chosen_servers(dict(os.environ)), tmp_path_factory.mktemp("servers")
    if choice == "embedded":
        with_empty_data(home, request.getfixturevalue("software"))
    with CHOICES[choice](home) as servers:
        yield servers


@pytest.fixture
async def dsn(pair: Pair) -> AsyncGenerator[str, None]:
    """An empty database of its own."""
    async with empty_database(pair.postgres) as dsn:
        yield dsn


@pytest.fixture
def kafka(pair: Pair) -> KafkaSettings:
    """Topics and groups of a test's own on the shared broker."""
    return replace(pair.kafka, prefix=f"t{uuid.uuid4().hex}.")
