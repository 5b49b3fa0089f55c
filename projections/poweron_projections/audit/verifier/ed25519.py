"""Ed25519 signatures, checked as RFC 8032, 5.1.7, says; slow, but there is nothing in it that one cannot read."""

from hashlib import sha512
from typing import Final

_P: Final = 2**255 - 19
_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, _P) % _P
_ROOT: Final = pow(2, (_P - 1) // 4, _P)  # of -1

_Point = tuple[int, int, int, int]
"""A point of the curve in extended coordinates (RFC 8032, 5.1.4)."""


def is_signature(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether a signature of 64 bytes over a message was made with the key of this public key of 32 bytes."""
    if len(signature) != 64 or len(public) != 32:
        return False
    key, commitment = _decoded(public), _decoded(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if key is None or commitment is None or scalar >= _ORDER:
        return False
    challenge = int.from_bytes(sha512(signature[:32] + public + message).digest(), "little") % _ORDER
    return _encoded(_times(scalar, _BASE)) == _encoded(_sum(commitment, _times(challenge, key)))


def _sum(one: _Point, other: _Point) -> _Point:
    first = (one[1] - one[0]) * (other[1] - other[0]) % _P
    second = (one[1] + one[0]) * (other[1] + other[0]) % _P
    third = 2 * one[3] * other[3] * _D % _P
    fourth = 2 * one[2] * other[2] % _P
    e, f, g, h = second - first, fourth - third, fourth + third, second + first
    return (e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _times(scalar: int, point: _Point) -> _Point:
    result: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = _sum(result, point)
        point, scalar = _sum(point, point), scalar >> 1
    return result


def _encoded(point: _Point) -> bytes:
    inverse = pow(point[2], -1, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _decoded(data: bytes) -> _Point | None:
    """Return the point that these bytes encode, None if they encode none (RFC 8032, 5.1.3)."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= _P:
        return None
    squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(squared, (_P + 3) // 8, _P)
    if x * x % _P != squared:
        x = x * _ROOT % _P
    if x * x % _P != squared or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = _P - x
    return (x, y, 1, x * y % _P)


_found = _decoded((4 * pow(5, -1, _P) % _P).to_bytes(32, "little"))
assert _found is not None
_BASE: Final[_Point] = _found
