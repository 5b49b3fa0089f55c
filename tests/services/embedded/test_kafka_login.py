"""How the embedded Kafka is looked for and its password kept, without starting it."""

import os
import socketserver
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from poweron_events.errors import Refused
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.embedded import kafka_connection, kafka_password
from poweron_services.embedded.folders import prepare, write_private
from poweron_services.embedded.kafka_configuration import configuration, configured
from poweron_services.embedded.kafka_connection import add_user, living_brokers
from poweron_services.embedded.kafka_server import free_port
from poweron_services.settings.config import Settings

PASSWORD = "the-password-that-nobody-is-told"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return prepare(tmp_path / "home").kafka_password


# --- the file ---------------------------------------------------------------------------------------------


def test_the_password_is_made_once_and_for_its_owner_alone(path: Path) -> None:
    made = kafka_password.ensure(path, renew=False)
    assert len(made) == 43
    assert path.stat().st_mode & 0o777 == 0o600
    assert kafka_password.ensure(path, renew=False) == kafka_password.read(path) == made
    assert kafka_password.ensure(path, renew=True) != made


def test_a_password_that_others_could_read_is_closed_to_them(path: Path) -> None:
    made = kafka_password.ensure(path, renew=False)
    path.chmod(0o644)
    assert kafka_password.read(path) == made
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"too-short", b'x" y="z"; ' * 5, b"\n" * 43])
def test_what_is_no_password_of_ours_is_refused_and_neither_told_nor_overwritten(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for use in (kafka_password.read, lambda path: kafka_password.ensure(path, renew=True)):
        with pytest.raises(Refused) as refused:
            use(path)
        assert f"{str(path)!r} holds none. Stop both servers and remove the file" in str(refused.value)
        assert "short" not in str(refused.value)
    assert path.read_bytes() == content


def test_what_a_killed_process_left_of_a_file_is_in_nobodys_way(path: Path) -> None:
    path.with_name("password.new").write_text("half")
    write_private(path, "whole")
    assert path.read_text() == "whole"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["password"]


# --- the settings of clients ------------------------------------------------------------------------------


def test_settings_tell_no_password_where_they_are_shown() -> None:
    assert PASSWORD not in repr(KafkaSettings("kafka:9092", sasl_password=PASSWORD))


def test_the_variables_say_the_same_to_a_process_of_ours_and_to_a_client_of_somebody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    login = ("SASL_SSL", "SCRAM-SHA-512", "poweron", PASSWORD)
    every = KafkaSettings("kafka:9093", *login, "ca.pem", "own.pem", "own.key", 3, 9_000, "mine.")
    for name, value in every.environment().items():
        monkeypatch.setenv(name, value)
    assert KafkaSettings.of(os.environ) == Settings().named_kafka == every
    assert KafkaSettings.of({"POWERON_KAFKA": ""}) == KafkaSettings("localhost:9092")


# --- the settings of the broker ---------------------------------------------------------------------------


def test_a_broker_gets_a_password_of_its_own_at_each_start(tmp_path: Path) -> None:
    own = set()
    for _ in range(2):
        (tmp_path / "file").write_text(configuration("data", broker=1, controller=2, password=PASSWORD, fsync=False))
        written = configured(tmp_path / "file")
        assert written is not None
        assert (written.broker, written.controller) == (1, 2)
        own.add(written.own_password)
    assert len(own - {None, PASSWORD}) == 2


def test_settings_of_a_release_before_0_3_are_read_and_have_no_password(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("listeners=BROKER://127.0.0.1:20001,CONTROLLER://127.0.0.1:20002\n")
    written = configured(tmp_path / "file")
    assert written is not None
    assert (written.broker, written.own_password) == (20001, None)


@pytest.mark.parametrize("content", [None, b"", b"listeners=BROKER", b"\xff"])
def test_settings_that_cannot_be_read_are_none(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    assert configured(tmp_path / "file") is None


# --- whoever else has the port ----------------------------------------------------------------------------


class Impostor(socketserver.BaseRequestHandler):
    """Goes along with everything that a client says, to hear the password or to be taken for Kafka."""

    heard = b""
    challenge = "r={nonce}and-mine,s=c2FsdA==,i=4096"
    proof = "v=AAAA"

    def handle(self) -> None:
        answers = [struct.pack(">hi", 0, 0), self.said(self.challenge), self.said(self.proof), struct.pack(">i", 1)]
        for answer in answers:
            size = self.request.recv(4)
            if not size:
                return
            request = self.request.recv(int.from_bytes(size))
            type(self).heard += request
            nonce = request.rpartition(b"r=")[2]
            whole = b"\0\0\0\1" + answer.replace(b"{nonce}", nonce)
            self.request.sendall(struct.pack(">i", len(whole)) + whole)

    def said(self, message: str) -> bytes:
        length = len(message) + (32 - len("{nonce}") if "{nonce}" in message else 0)
        return struct.pack(">hhi", 0, -1, length) + message.encode()


@contextmanager
def listening(handler: type[socketserver.BaseRequestHandler]) -> Generator[int, None, None]:
    with socketserver.TCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        yield server.server_address[1]
        thread.join()


@pytest.mark.req("S32")
@pytest.mark.parametrize(
    "challenge",
    ["r={nonce}and-mine,s=c2FsdA==,i=4096", "r=another,s=c2FsdA==,i=4096", "r={nonce}1,s=c2FsdA==,i=1", "e=what", ""],
)
def test_who_took_the_port_learns_no_password_and_is_not_taken_for_kafka(
    challenge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Impostor, "challenge", challenge)
    monkeypatch.setattr(Impostor, "heard", b"")
    with listening(Impostor) as port:
        assert living_brokers(port, "poweron", PASSWORD) == 0
    assert b"SCRAM-SHA-256" in Impostor.heard
    assert PASSWORD.encode() not in Impostor.heard


class Web(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return


def test_something_else_on_the_port_is_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_connection, "PROBE_TIMEOUT", 0.1)
    with listening(Web) as port:
        assert living_brokers(port, "poweron", PASSWORD) == 0
    with listening(Web) as port:
        add_user(port, "own", "poweron", PASSWORD)  # and is told nothing that it could use
    assert living_brokers(free_port(), "poweron", PASSWORD) == 0
