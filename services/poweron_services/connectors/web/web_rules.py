"""Rules for allowed hosts, ports and IP addresses, based on the operator's settings and on the public IP ranges."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from poweron_services.connectors.web.host_patterns import HostPattern
from poweron_services.connectors.web.ip_ranges import destination, special_range
from poweron_services.connectors.web.web_address import WebAddress, refused
from poweron_services.connectors.web.web_settings import WebSettings

IPAddress = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class WebRules:
    """The rules for one client."""

    settings: WebSettings
    engine: tuple[str, int] | None = None
    """Host and port of the search engine that the operator configured; it is allowed without any other setting."""

    def check(self, address: WebAddress) -> None:
        """Check that the address is allowed, without resolving its host.

        Raises:
            Refused: the address is not allowed (`address_refused`).
        """
        if (address.host, address.port) == self.engine:
            return
        if _named(self.settings.deny, address.host):
            raise refused(f"is of {address.host}, which is in the deny list of the settings")
        private = self.private(address.host, address.port)
        if self.settings.allow and not private and not _named(self.settings.allow, address.host):
            raise refused(f"is of {address.host}, which is not in the allow list of the settings")
        if not private and address.port not in self.settings.ports:
            raise refused(f"has the port {address.port}, which the settings do not name")
        if address.ip is not None:
            self.check_ip(address.host, address.port, [address.host])

    def check_ip(self, host: str, port: int, found: Sequence[str]) -> list[IPAddress]:
        """Return the IP addresses of a host, after checking that connections to all of them are allowed.

        Raises:
            Refused: one of them is denied, or in a special range, as when a name is used to reach a private service.
        """
        addresses = [ip_address(address) for address in found]
        for address in addresses:
            if (why := self._against(host, port, address)) is not None:
                raise refused(f"is of {host}, whose IP address {address} is {why}")
        return addresses

    def _against(self, host: str, port: int, address: IPAddress) -> str | None:
        """Why the host is not allowed at this IP address, or None if it is allowed."""
        if (host, port) == self.engine:
            return None
        if any(_named(self.settings.deny, str(form)) for form in (address, destination(address))):
            return "in the deny list of the settings"
        return None if self.private(host, port) else special_range(address)

    def private(self, host: str, port: int) -> bool:
        """Return whether the operator allows this host on any network."""
        return (host, port) == self.engine or any(
            pattern.names(host) and port in (self.settings.ports if pattern.port is None else {pattern.port})
            for pattern in self.settings.private_hosts
        )


def _named(patterns: Iterable[HostPattern], host: str) -> bool:
    return any(pattern.names(host) for pattern in patterns)
