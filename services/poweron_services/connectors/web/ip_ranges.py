"""The IP ranges that hold no public pages: one table for every Python release.

It contains every block of both IANA special-purpose registries, including the routed ones, and ranges that they omit.
An IPv6 address that embeds the IPv4 address of its destination is judged by that one, if the destination is certain.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

V4: Final = {
    IPv4Network(network): name
    for network, name in {
        "0.0.0.0/8": "of this network",
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "shared by the customers of a provider",  # 100.100.100.200: metadata of a cloud
        "127.0.0.0/8": "loopback",
        "168.63.129.16/32": "metadata of a cloud",
        "169.254.0.0/16": "link-local",  # 169.254.169.254: metadata of clouds
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "for protocols",  # 192.0.0.192: metadata of a cloud
        "192.0.2.0/24": "for documentation",
        "192.31.196.0/24": "for protocols (AS112)",
        "192.52.193.0/24": "for protocols (AMT)",
        "192.88.99.0/24": "of 6to4 relays",
        "192.168.0.0/16": "private",
        "192.175.48.0/24": "for protocols (AS112)",
        "198.18.0.0/15": "for benchmarks",
        "198.51.100.0/24": "for documentation",
        "203.0.113.0/24": "for documentation",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
    }.items()
}

V6: Final = {
    IPv6Network(network): name
    for network, name in {
        "::1/128": "loopback",
        "::/96": "compatible with IPv4",
        "64:ff9b:1::/48": "translated to IPv4, nobody knows where",
        "100::/64": "thrown away",
        "100:0:0:1::/64": "a dummy",
        "2001::/23": "for protocols",  # Teredo, benchmarks, ORCHID
        "2001:db8::/32": "for documentation",
        "2002::/16": "6to4",
        "2620:4f:8000::/48": "for protocols (AS112)",
        "3fff::/20": "for documentation",
        "5f00::/16": "of segment routing",
        "fc00::/7": "private",
        "fe80::/10": "link-local",
        "fec0::/10": "site-local",
        "ff00::/8": "multicast",
    }.items()
}

HANDED_OUT: Final = IPv6Network("2000::/3")
"""The only IPv6 range that is allocated for the public internet."""

CARRYING_V4: Final = (
    IPv6Network("::ffff:0:0/96"),  # mapped
    IPv6Network("::ffff:0:0:0/96"),  # translated
    IPv6Network("64:ff9b::/96"),  # NAT64
)
"""Ranges in which the last 32 bits of an address are the IPv4 address that a packet reaches."""

MAX_V4: Final = 2**32 - 1


def destination(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the address that a packet reaches: the embedded IPv4 address, or else the address itself."""
    if isinstance(address, IPv6Address) and any(address in network for network in CARRYING_V4):
        return IPv4Address(int(address) & MAX_V4)
    return address


def special_range(address: IPv4Address | IPv6Address) -> str | None:
    """Return why no page may be fetched from the address, or None if it is public."""
    if isinstance(address, IPv4Address):
        return next((name for network, name in V4.items() if address in network), None)
    if address.scope_id is not None:
        return "of one interface"
    if (carried := destination(address)) != address:
        return special_range(carried)
    named = next((name for network, name in V6.items() if address in network), None)
    return named or (None if address in HANDED_OUT else "not handed out")
