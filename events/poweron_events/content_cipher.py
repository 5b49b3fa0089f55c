"""Encrypt content with a key that is derived from the workflow's key, which is kept in another store.

AES-256-GCM with a key of HKDF-SHA256 (RFC 5869), and the content's name as associated data. An encrypted content is
`MAGIC`, a nonce, the encrypted bytes and a tag of 16 bytes. The nonce is an HMAC of the name, which itself is an HMAC
of the bytes, so a nonce occurs with one content only. Without the workflow's key no bytes can be made that begin like
the encrypted content of a name, so plain content, from before the keys had a store, cannot be confused with it.
"""

import errno
import hmac
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MAGIC: Final = b"\x89PowerOn sealed\x00"
NONCE: Final = 12  # bytes
TAG: Final = 16  # bytes
OVERHEAD: Final = len(MAGIC) + NONCE + TAG
_ENCRYPTION: Final = b"poweron content encryption v1"
_NONCES: Final = b"poweron content nonces v1"


class ContentCipher:
    """Encrypts and decrypts the contents of one workflow."""

    def __init__(self, key: bytes) -> None:
        self._encryption, self._nonces = _derived(key, _ENCRYPTION), _derived(key, _NONCES)

    def encrypt(self, name: str, content: bytes) -> bytes:
        """Return a content, which has this commitment, encrypted."""
        header = self.header(name)
        return header + AESGCM(self._encryption).encrypt(header[len(MAGIC) :], content, name.encode())

    def decrypt(self, name: str, stored: bytes) -> bytes:
        """Return a content; one that is not encrypted is returned as it is.

        Raises:
            OSError: what is stored is damaged.
        """
        header = self.header(name)
        if not stored.startswith(header):
            return stored
        try:
            return AESGCM(self._encryption).decrypt(header[len(MAGIC) :], stored[len(header) :], name.encode())
        except InvalidTag as error:
            raise _damaged(name) from error

    async def decrypted(self, name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield a content piece by piece; raises like `decrypt`, before the last piece."""
        header, held = self.header(name), b""
        async for piece in pieces:
            held += piece
            if len(held) >= len(header):
                break
        if not held.startswith(header):
            yield held
            async for piece in pieces:
                yield piece
            return
        decryptor = Cipher(algorithms.AES(self._encryption), modes.GCM(header[len(MAGIC) :])).decryptor()
        decryptor.authenticate_additional_data(name.encode())
        held, last = held[len(header) :], b""
        while True:
            ready, held = held[:-TAG], held[-TAG:]
            if ready:
                if last:
                    yield last
                last = decryptor.update(ready)
            piece = await anext(pieces, b"")
            if not piece:
                break
            held += piece
        try:
            decryptor.finalize_with_tag(held)
        except (InvalidTag, ValueError) as error:
            raise _damaged(name) from error
        yield last

    def header(self, name: str) -> bytes:
        """Return how the encrypted content of this name begins."""
        return MAGIC + hmac.digest(self._nonces, name.encode(), "sha256")[:NONCE]

    def encrypt_answer(self, path: str, content: bytes) -> bytes:
        """Return a remembered answer, which another one may replace, encrypted: its nonce depends on its bytes, too."""
        nonce = hmac.digest(self._nonces, path.encode() + b"\x00" + content, "sha256")[:NONCE]
        return MAGIC + nonce + AESGCM(self._encryption).encrypt(nonce, content, path.encode())

    def decrypt_answer(self, path: str, stored: bytes) -> bytes:
        """Return a remembered answer; one that is not encrypted with this key is returned as it is."""
        nonce = stored[len(MAGIC) : len(MAGIC) + NONCE]
        if not stored.startswith(MAGIC) or len(nonce) < NONCE:
            return stored
        try:
            return AESGCM(self._encryption).decrypt(nonce, stored[len(MAGIC) + NONCE :], path.encode())
        except InvalidTag:
            return stored


@lru_cache(maxsize=1_000)
def cipher_of(key: bytes) -> ContentCipher:
    """Return the cipher of a workflow's key."""
    return ContentCipher(key)


def _derived(key: bytes, label: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=label).derive(key)


def _damaged(name: str) -> OSError:
    return OSError(errno.EIO, f"the bytes of content {name} are damaged")
