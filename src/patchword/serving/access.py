"""Who may talk to a local server: the token of this start, and the names under which the server is reached."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from hmac import compare_digest

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Access:
    """The token, and the host names that a request may name.

    port: of the server. names: host names and addresses without a port, IPv6 addresses in brackets.
    """

    port: int
    names: tuple[str, ...] = LOOPBACK
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def cookie(self) -> str:
        """The name of the cookie. Cookies do not depend on the port, so the name has it: two labs do not collide."""
        return f"patchword-{self.port}"

    @property
    def address(self) -> str:
        """The address to open first; it contains the token."""
        return f"http://{self.names[0]}:{self.port}/?token={self.token}"

    def hosts(self) -> frozenset[str]:
        """Return the values of the header Host that are accepted."""
        bare = self.names if self.port == 80 else ()
        return frozenset([*(f"{name}:{self.port}" for name in self.names), *bare])

    def origins(self) -> frozenset[str]:
        """Return the values of the header Origin that are accepted."""
        return frozenset(f"http://{host}" for host in self.hosts())

    def is_token(self, given: str) -> bool:
        """Compare a text with the token in a time that does not depend on the text."""
        return compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode())

    def has_cookie(self, headers: Iterable[str]) -> bool:
        """Return True if one of the Cookie headers has the token."""
        pairs = (pair.strip().partition("=") for header in headers for pair in header.split(";"))
        return any(name == self.cookie and self.is_token(value) for name, _, value in pairs)

    def set_cookie(self) -> str:
        """Return the value of the header Set-Cookie: scripts cannot read it, other sites cannot send it."""
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
