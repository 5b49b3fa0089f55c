"""No page is fetched from an address that is not public: our table, compared with that of others."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ssrfguard import DEFAULT_DENIED, Block, Reach

from poweron_services.connectors.web.web_rules import V6, special_range

TRANSLATED = [block for block in DEFAULT_DENIED.blocks if block.reach is Reach.TRANSLATED]
SPECIAL = [block for block in DEFAULT_DENIED.blocks if block.reach is not Reach.TRANSLATED]
"""Every block of both registries, those included that are routed, and those that they leave out."""


@pytest.mark.req("S12", "X-02")
@pytest.mark.parametrize("block", SPECIAL, ids=lambda block: str(block.network))
def test_every_special_range_of_both_registries_is_refused(block: Block) -> None:
    network = block.network
    inside = {network[0], network[-1], network[network.num_addresses // 2], network[network.num_addresses // 3]}
    assert [str(address) for address in inside if special_range(address) is None] == []


@pytest.mark.req("S12")
@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "100.100.100.200",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "192.0.0.192",
        "192.88.99.1",
        "224.0.0.1",
        "239.255.255.250",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::808:808",
        "::ffff:127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::7f00:1",
        "64:ff9b:1::808:808",
        "200::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:808:808::1",
        "3fff::1",
        "4000::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1111%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert special_range(ip_address(address)) is not None


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "93.184.215.14", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_a_public_address_is_let_through_also_where_ipv6_carries_it(address: str) -> None:
    assert special_range(ip_address(address)) is None


ADDRESSES = st.one_of(
    st.integers(0, 2**32 - 1).map(IPv4Address),
    st.integers(0, 2**128 - 1).map(IPv6Address),
    st.builds(
        lambda network, low: network[low % network.num_addresses],
        st.sampled_from([*V6, *(block.network for block in DEFAULT_DENIED.blocks), IPv6Network("2000::/3")]),
        st.integers(0, 2**128 - 1),
    ),
)


@pytest.mark.req("S12")
@settings(max_examples=1_000, deadline=None)
@given(ADDRESSES)
@example(IPv6Address("::ffff:10.0.0.1"))
def test_whatever_others_refuse_we_refuse(address: IPv4Address | IPv6Address) -> None:
    if DEFAULT_DENIED.classify(address).blocked:
        assert special_range(address) is not None


@settings(max_examples=1_000, deadline=None)
@given(ADDRESSES)
def test_what_python_holds_for_not_global_we_refuse_unless_it_carries_a_public_address(
    address: IPv4Address | IPv6Address,
) -> None:
    carrying = any(address in block.network for block in TRANSLATED)
    if not address.is_global and not carrying:
        assert special_range(address) is not None
