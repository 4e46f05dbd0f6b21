"""Rules on which hosts and addresses may be reached, enforced by `browser_env.safety.proxy`."""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from selfsurf.browser_env.safety.policy import Safety


Address = ipaddress.IPv4Address | ipaddress.IPv6Address

PRIVATE = "private network"
BLOCKED = "blocked domain"
NOT_ALLOWED = "not an allowed domain"
REBOUND = "private network: the name had a public address before"

_NUMBER = r"(?:0x[0-9a-f]*|[0-9]+)"
_NUMERIC_HOST = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}){{0,3}}", re.IGNORECASE)


def clean_host(host: str) -> str:
    """Normalize a host: lower case, ASCII, no brackets, no final dot, numbers as a dotted address."""
    # letter by letter, because a final sigma would become another letter
    host = "".join(map(str.lower, host.strip().strip("[]").rstrip(".")))
    literal = as_address(host)
    if literal is not None:
        return str(literal)
    try:
        return ".".join(map(_ascii, _DOTS.split(host)))
    except UnicodeError:
        return host


_DOTS = re.compile("[.\u3002\uff0e\uff61]")
_KEPT = re.compile("[\u00df\u03c2\u200c\u200d]")
"""Characters that browsers keep in names but Python's codec, based on an older standard, replaces: ß, ς and the
joiners."""


def _ascii(label: str) -> str:
    """Encode a label of a host name as browsers do.

    Raises:
        UnicodeError: the label is not allowed in a name.
    """
    if _KEPT.search(label):
        return "xn--" + unicodedata.normalize("NFKC", label).encode("punycode").decode("ascii")
    return label.encode("idna").decode("ascii")


def as_address(host: str) -> Address | None:
    """Parse a host as an address in any form that browsers accept: `127.1`, `0x7f000001`, `017700000001`, IPv6."""
    host = host.strip("[]").rstrip(".")
    if _NUMERIC_HOST.fullmatch(host):
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except OSError:
            return None
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_private(address: Address) -> bool:
    """Whether an address is not on the public internet. IPv4 embedded in IPv6 is judged as IPv4."""
    address = (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address
    inner = _embedded(address)
    if inner is not None:
        return is_private(inner)
    return not address.is_global or address.is_multicast


def _embedded(address: Address) -> Address | None:
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address.sixtofour:
        return address.sixtofour
    if address.teredo:
        return address.teredo[1]
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):  # ::a.b.c.d, but not :: and ::1
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_loopback_name(host: str) -> bool:
    """Whether browsers resolve a name to the local machine, regardless of DNS."""
    return host == "localhost" or host.endswith(".localhost")


def is_loopback(host: str) -> bool:
    """Whether a host is the local machine, by name or by address."""
    address = as_address(host)
    return is_loopback_name(host) if address is None else address.is_loopback


def matches(pattern: str, host: str, port: int | None, *, below: bool = False) -> bool:
    """Whether a pattern of `Safety.allowed` or `Safety.blocked` matches a host.

    Args:
        pattern: `example.org`, `*.example.org` or `example.org:8000`.
        host: as returned by `clean_host`.
        port: the port to connect to.
        below: match subdomains as well.
    """
    name, wanted = _parts(pattern)
    if wanted is not None and port != wanted:
        return False
    if name == "*":
        return True
    if name.startswith("*."):
        name, below = name[2:], True
    name = clean_host(name)
    return host == name or (below and as_address(host) is None and host.endswith(f".{name}"))


def _parts(pattern: str) -> tuple[str, int | None]:
    """Return a pattern's host and port; the port is None for all ports."""
    found = re.fullmatch(r"([^:]+|\[.+\]):(\d+)", pattern.strip())
    return (found[1].strip(), int(found[2])) if found else (pattern.strip(), None)


class Rules:
    """The network rules of a `Safety`, for one task.

    Args:
        safety: the user's rules.
        own: addresses of the task's own hosts: its start and its `sites`. They may be reached, private or not.
    """

    def __init__(self, safety: Safety, own: Iterable[str] = ()) -> None:
        self.safety = safety
        self.own: dict[str, set[int | None]] = {}
        """Hosts of the task itself, each with the ports named by the task."""
        for url in own:
            self.add_own(url)

    def add_own(self, url: str) -> None:
        """Allow the host of an address, private or not. An address without a host is ignored."""
        host, port = host_and_port(url)
        if host:
            self.own.setdefault(host, set()).add(port)

    def is_own(self, host: str) -> bool:
        """Whether a host belongs to the task. A task that starts on this machine owns all of the machine's names."""
        return host in self.own or (is_loopback(host) and any(map(is_loopback, self.own)))

    def refuses_name(self, host: str, port: int | None) -> str:
        """Return why a host may not be reached, whatever its address; empty if it may."""
        if any(matches(pattern, host, port, below=True) for pattern in self.safety.blocked):
            return BLOCKED
        if not self.safety.allowed or self._is_allowed(host, port):
            return ""
        if host in self.own and (port in self.own[host] or not self._has_ports(host)):
            return ""
        return NOT_ALLOWED

    def may_be_private(self, host: str, port: int | None) -> bool:
        """Whether a host may have a private address."""
        return self.safety.allow_private or self.is_own(host) or self._is_allowed(host, port, named=True)

    def _is_allowed(self, host: str, port: int | None, *, named: bool = False) -> bool:
        return any(matches(p, host, port) for p in self.safety.allowed if not (named and _parts(p)[0] == "*"))

    def _has_ports(self, host: str) -> bool:
        """Whether the allowed hosts restrict the ports of a host."""
        ports = {pattern: _parts(pattern)[1] for pattern in self.safety.allowed}
        return any(port is not None and matches(pattern, host, port) for pattern, port in ports.items())

    @property
    def direct(self) -> tuple[str, ...]:
        """Hosts exempt from checks because DNS can't change their address, as Chromium proxy bypass rules."""
        if self.safety.blocked:
            return ()
        literal = {host for host in self.own if as_address(host) is not None or host == "localhost"}
        literal = {f"[{host}]" if ":" in host else host for host in literal if not self._has_ports(host)}
        if any(map(is_loopback, self.own)) and not self.safety.allowed:
            literal |= {"localhost", "*.localhost", "127.0.0.0/8", "[::1]"}
        return tuple(sorted(literal))


def host_and_port(url: str) -> tuple[str, int | None]:
    """Return a URL's normalized host and its port; the host is empty if there is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "", None
    return clean_host(host) if host else "", port or {"http": 80, "ws": 80, "https": 443, "wss": 443}.get(parts.scheme)


def permission_for(message: str) -> str:
    """Return a sentence on how the user can permit a refused access; empty for any other message."""
    kept_out = re.search(rf"(\S+) was not opened: (?:{PRIVATE}|{NOT_ALLOWED})\.", message)
    if kept_out:
        host = host_and_port(kept_out[1])[0]
        return f' The user can permit it with --allowed {host}, or Safety(allowed=("{host}",)) in Python.'
    if "may be uploaded here;" in message or "may not be uploaded;" in message:
        return " On the command line, use --upload-from FOLDER."
    return ""
