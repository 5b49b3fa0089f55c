"""Brokers that tests set up in their own way: with TLS, users and ACLs, or as deploy/compose.yaml does."""

import asyncio
import datetime as dt
import ipaddress
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from poweron_events.errors import Unavailable
from poweron_events.log.kafka_clients import reach
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.embedded.kafka_server import Kafka
from poweron_services.embedded.server_process import run
from poweron_services.embedded.tcp_ports import free_port

SECRET = "a-long-random-word"
USERS = ("admin", "intake", "deciders", "executor", "client", "auditor")

SECURED = """\
listeners=BROKER://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller},{listeners}
advertised.listeners=BROKER://127.0.0.1:{broker},{listeners}
listener.security.protocol.map=BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config={plain}
listener.name.sasl_ssl.plain.sasl.jaas.config={plain}
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={scram}
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram}
ssl.keystore.type=PEM
ssl.keystore.location={tls}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={tls}/ca.pem
listener.name.ssl.ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:poweron;User:poweron-admin
"""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
    f'user_poweron-{name}="{SECRET}"' for name in USERS
)
LOGIN = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{password}";
"""
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def free_ports(*names: str) -> dict[str, int]:
    return {name: free_port() for name in names}


@dataclass(frozen=True)
class SecuredKafka(Kafka):
    """A broker that lets in only who proves who he is, in every way that our settings know."""

    ports: dict[str, int] = field(default_factory=lambda: free_ports("SASL_SSL", "SASL_PLAINTEXT", "SSL"))

    @property
    def tls(self) -> Path:
        return self.folders.home / "tls"

    def address(self, protocol: str) -> str:
        return f"127.0.0.1:{self.ports[protocol]}"

    def _configuration(self, data: str, *, broker: int, controller: int, password: str = "") -> str:
        own = Kafka._configuration(self, data, broker=broker, controller=controller, password=password)
        listeners = ",".join(f"{protocol}://{self.address(protocol)}" for protocol in self.ports)
        return own + SECURED.format(
            broker=broker,
            controller=controller,
            listeners=listeners,
            plain=PLAIN + ";",
            scram=SCRAM + ";",
            tls=self.tls,
        )

    async def add_scram_user(self, name: str, mechanism: str) -> None:
        what = ["--add-config", f"{mechanism}=[password={SECRET}]", "--entity-type", "users", "--entity-name", name]
        kafka = self.client_settings
        login = self.folders.kafka / "login.properties"
        login.write_text(LOGIN.format(user=kafka.sasl_username, password=kafka.sasl_password))
        there = ["--bootstrap-server", kafka.bootstrap, "--command-config", str(login)]
        await run([*self._java(), "kafka.admin.ConfigCommand", *there, "--alter", *what], folder=login.parent, env={})


@dataclass(frozen=True)
class OpenKafka(Kafka):
    """A broker that lets everybody in."""

    @property
    def let_in(self) -> KafkaSettings:
        return KafkaSettings(f"127.0.0.1:{self._remembered_port()}")

    def answers(self) -> bool:
        try:
            asyncio.run(reach(self.let_in, 5.0))
        except Unavailable:
            return False
        return True

    _answers_or_learns = answers


@dataclass(frozen=True)
class OlderKafka(OpenKafka):
    """The broker as release 0.2 started it."""

    async def start(self, progress: Callable[[str], None]) -> None:
        await OpenKafka.start(self, progress)
        self.folders.kafka_password.unlink()
        self._properties.chmod(0o644)

    def _configuration(self, data: str, *, broker: int, controller: int, password: str = "") -> str:
        ours = Kafka._configuration(self, data, broker=broker, controller=controller).replace(
            "SASL_PLAINTEXT", "PLAINTEXT"
        )
        return re.sub(r"^(sasl|listener\.name)\..*\n", "", ours, flags=re.MULTILINE)


@dataclass(frozen=True)
class ComposedKafka(OpenKafka):
    """The broker of deploy/compose.yaml, but for its addresses and its folder."""

    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    def _remembered_port(self) -> int:
        return self.port

    def _configuration(self, data: str, *, broker: int, controller: int, password: str = "") -> str:
        moved = {"9092": str(broker), "9093": str(controller), "kafka:": "127.0.0.1:", "//:": "//127.0.0.1:"}
        settings = {
            name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
            for name, value in self.environment.items()
            if name.startswith("KAFKA_")
        }
        for name in ("listeners", "advertised.listeners", "controller.quorum.voters"):
            for theirs, ours in moved.items():
                settings[name] = settings[name].replace(theirs, ours)
        settings["log.dirs"] = data
        return "".join(f"{name}={value}\n" for name, value in settings.items())


# --- certificates -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Authority:
    """Signs certificates for the brokers and clients of a test."""

    folder: Path
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def issue_all(self) -> None:
        """`ca.pem`, and certificates with their keys for the broker and for a client."""
        self.folder.mkdir(parents=True)
        authority = self._sign("PowerOn tests", self.key, authority=True)
        (self.folder / "ca.pem").write_bytes(authority)
        for name in ("broker", "poweron-admin"):
            key = ec.generate_private_key(ec.SECP256R1())
            written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            certificate = self._sign(name, key, authority=False)
            (self.folder / f"{name}.pem").write_bytes(written + certificate)
            (self.folder / f"{name}.key").write_bytes(written)

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, *, authority: bool) -> bytes:
        today = dt.datetime.now(dt.UTC)
        usage = x509.KeyUsage(
            **dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False),
            **dict.fromkeys(("encipher_only", "decipher_only"), False),
            **dict.fromkeys(("key_cert_sign", "crl_sign"), authority),
            digital_signature=True,
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named("PowerOn tests"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(today - dt.timedelta(days=1))
            .not_valid_after(today + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
        )
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


# --- ACLs -------------------------------------------------------------------------------------------------

RESOURCES = {"--topic": 2, "--group": 3}
PATTERNS = {"literal": 3, "prefixed": 4}
OPERATIONS = {"Read": 3, "Write": 4, "Describe": 8, "DescribeConfigs": 10}
ALLOW = 3


def acls(command: str) -> Iterator[tuple[int, str, int, str, str, int, int]]:
    """The ACLs that a `kafka-acls.sh --add` command grants."""
    words = shlex.split(command)
    options = list(pairwise(words))

    def given(name: str) -> list[str]:
        return [value for option, value in options if option == name]

    (resource,) = [option for option in RESOURCES if option in words]
    pattern = PATTERNS[(given("--resource-pattern-type") or ["literal"])[0]]
    for principal in given("--allow-principal"):
        for operation in given("--operation"):
            kind, name = RESOURCES[resource], given(resource)[0]
            yield kind, name, pattern, principal, "*", OPERATIONS[operation], ALLOW


async def grant(admin: AIOKafkaAdminClient, commands: list[str]) -> None:
    """What `kafka-acls.sh` would do."""
    for command in commands:
        for acl in acls(command):
            response = await admin._send_to_controller(CreateAclsRequest(*acl))
            assert [answer[0] for answer in response.creation_responses] == [0], response
