"""The client that asks the witnesses of a policy over HTTP (C2SP `tlog-witness`)."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from poweron_events.errors import Unavailable
from poweron_projections.audit.ledger_witnesses import ANSWER_WITHIN, LedgerWitnesses
from poweron_projections.audit.notes import VerifierKey
from poweron_projections.audit.tlog_policy import TlogPolicy
from poweron_projections.audit.witness_request import WitnessAnswer

if TYPE_CHECKING:
    import httpx2

SIZE_TYPE: Final = "text/x.tlog.size"
MAX_ANSWER: Final = 300_000  # bytes: 64 signatures
MAX_DIGITS: Final = 20


@asynccontextmanager
async def witnesses_of(policy: TlogPolicy | None) -> AsyncGenerator[LedgerWitnesses, None]:
    """Open connections to all witnesses of the policy that have an address; several keys can share one."""
    keys = defaultdict[str, list[VerifierKey]](list)
    for witness in policy.witnesses.values() if policy is not None else ():
        if witness.url is not None:
            keys[witness.url.rstrip("/")].append(witness.key)
    if not keys:
        yield LedgerWitnesses()
        return
    import httpx2  # noqa: PLC0415 - slow to import, and few ledgers have witnesses

    async with httpx2.AsyncClient(timeout=ANSWER_WITHIN, follow_redirects=False) as client:
        yield LedgerWitnesses([HttpWitness(client, url, each) for url, each in keys.items()])


@dataclass(frozen=True, slots=True)
class HttpWitness:
    """A witness at an address."""

    client: "httpx2.AsyncClient"
    name: str
    """The address, without a slash at its end."""
    keys: Sequence[VerifierKey]

    async def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        """Send a request, and return any answer.

        Raises:
            Unavailable: the witness cannot be reached, or answers too much.
        """
        import httpx2  # noqa: PLC0415 - as above

        try:
            async with self.client.stream("POST", f"{self.name}/add-checkpoint", content=body) as response:
                answer = bytearray()
                async for chunk in response.aiter_bytes():
                    answer += chunk
                    if len(answer) > MAX_ANSWER:
                        raise Unavailable("The witness answers more than cosignatures.")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unavailable(f"The witness cannot be reached: {str(error) or type(error).__name__}") from error
        return WitnessAnswer(response.status_code, bytes(answer), _known_size(response, bytes(answer)))


def _known_size(response: "httpx2.Response", body: bytes) -> int | None:
    """Return the size in the answer of a witness that has cosigned another one than the ledger thinks."""
    digits = body.decode(errors="replace").removesuffix("\n")
    is_size = digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS
    return int(digits) if response.headers.get("Content-Type", "").partition(";")[0] == SIZE_TYPE and is_size else None
