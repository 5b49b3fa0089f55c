"""Requests to the embedded Kafka before any client connects: ask whether it is alive, and add our user.

Clients log in with SCRAM (RFC 5802): each side proves that it knows the password without revealing it. A process that
takes the port of a stopped Kafka therefore cannot learn the password or pass for Kafka.
"""

import hashlib
import hmac
import secrets
import socket
import struct
import time
from base64 import b64decode, b64encode
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4_096  # the least that Kafka accepts: more would only slow down guessing, which is hopeless here
PROBE_TIMEOUT: Final = 2.0  # seconds for the whole exchange
LEAST_TIMEOUT: Final = 0.001  # seconds
LONGEST_ANSWER: Final = 100_000  # bytes

# The requests, by Kafka's API key and version.
METADATA, HANDSHAKE, AUTHENTICATE, ALTER_USERS = (3, 1), (17, 1), (36, 1), (51, 0)
NO_TOPICS: Final = struct.pack(">i", 0)
NOT_KAFKA: Final = (OSError, KeyError, ValueError)


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """A connection to a port of this machine, on which any process may be listening."""

    socket: socket.socket
    deadline: float
    """In seconds of `time.monotonic`, for the whole exchange."""

    def ask(self, api: tuple[int, int], body: bytes, tags: bytes = b"") -> bytes:
        """Send a request; return the answer without its first field, the correlation id."""
        correlation, no_client_id = 1, -1
        request = struct.pack(">hhih", *api, correlation, no_client_id) + tags + body
        self.socket.sendall(struct.pack(">i", len(request)) + request)
        size = int.from_bytes(self._exactly(4))
        if size > LONGEST_ANSWER:
            raise ConnectionError
        return self._exactly(size)[4:]

    def _exactly(self, count: int) -> bytes:
        answer = b""
        while len(answer) < count:
            self.socket.settimeout(max(LEAST_TIMEOUT, self.deadline - time.monotonic()))
            chunk = self.socket.recv(count - len(answer))
            if not chunk or time.monotonic() > self.deadline:
                raise ConnectionError
            answer += chunk
        return answer


def living_brokers(port: int, user: str, password: str) -> int:
    """Return how many live brokers the broker on this port knows; 0 if nothing, or something else, listens there.

    Raises:
        PermissionError: the broker rejects this user and password.
    """
    try:
        with _connect(port) as connection:
            _log_in(connection, user, password)
            return int.from_bytes(connection.ask(METADATA, NO_TOPICS)[:4])
    except PermissionError:
        raise
    except NOT_KAFKA:
        return 0


def add_user(port: int, own_password: str, user: str, password: str) -> None:
    """Add a user to the broker through its controller. If the controller does not answer, nothing happens.

    Args:
        port: the controller's port.
        own_password: the password with which the broker itself logs in to the controller.
        user: the user to add.
        password: the user's password.
    """
    try:
        with _connect(port) as connection:
            _choose(connection, "PLAIN")
            _say(connection, f"\0{user}\0{own_password}")
            connection.ask(ALTER_USERS, _with_user(user, password), tags=b"\0")
    except NOT_KAFKA:
        return


def _with_user(user: str, password: str) -> bytes:
    """The request to delete no user and add one. Its lengths are encoded plus one, and its parts end with tags."""
    deletions, additions, no_tags = b"\x01", b"\x02", b"\0"
    salt, sha_256 = secrets.token_bytes(16), 1
    texts = [bytes([len(text) + 1]) + text for text in (user.encode(), salt, _salt(password, salt))]
    parts = [deletions, additions, texts[0], struct.pack(">bi", sha_256, ITERATIONS), *texts[1:], no_tags, no_tags]
    return b"".join(parts)


@contextmanager
def _connect(port: int) -> Generator[KafkaConnection]:
    deadline = time.monotonic() + PROBE_TIMEOUT
    with socket.create_connection(("127.0.0.1", port), PROBE_TIMEOUT) as there:
        yield KafkaConnection(there, deadline)


# --- the login --------------------------------------------------------------------------------------------


def _log_in(connection: KafkaConnection, user: str, password: str) -> None:
    _choose(connection, MECHANISM)
    nonce = secrets.token_hex(16)
    opening = f"n={user},r={nonce}"
    challenge = _say(connection, f"n,,{opening}")
    fields = _fields(challenge)
    if not fields["r"].startswith(nonce) or int(fields["i"]) != ITERATIONS:
        raise ConnectionError
    closing = f"c=biws,r={fields['r']}"
    salted_password, messages = _salt(password, b64decode(fields["s"])), f"{opening},{challenge},{closing}".encode()
    last = _say(connection, f"{closing},p={_proof(salted_password, messages)}")
    if not hmac.compare_digest(_fields(last)["v"].encode(), _signature(salted_password, messages).encode()):
        raise ConnectionError


def _choose(connection: KafkaConnection, mechanism: str) -> None:
    name = mechanism.encode()
    answer = connection.ask(HANDSHAKE, struct.pack(">h", len(name)) + name)
    if int.from_bytes(answer[:2]):
        raise ConnectionError


def _say(connection: KafkaConnection, message: str) -> str:
    """Send one message of a login and return the reply."""
    answer = connection.ask(AUTHENTICATE, struct.pack(">i", len(message)) + message.encode())
    if int.from_bytes(answer[:2]):
        raise PermissionError
    no_complaint = 4  # bytes: the error code and the empty error message
    size = int.from_bytes(answer[no_complaint : no_complaint + 4])
    return answer[no_complaint + 4 :][:size].decode()


def _fields(line: str) -> dict[str, str]:
    return dict(field.split("=", 1) for field in line.split(","))


def _salt(password: str, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)


def _proof(salted_password: bytes, messages: bytes) -> str:
    """The proof that we know the password, for a server that knows it too."""
    key = hmac.digest(salted_password, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), messages, "sha256")
    return b64encode(bytes(left ^ right for left, right in zip(key, signature, strict=True))).decode()


def _signature(salted_password: bytes, messages: bytes) -> str:
    """The proof that the server knows the password."""
    return b64encode(hmac.digest(hmac.digest(salted_password, b"Server Key", "sha256"), messages, "sha256")).decode()
