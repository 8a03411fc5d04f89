"""What every request must fulfil, whatever its token: against foreign pages, DNS rebinding and bodies without end."""

from dataclasses import dataclass

from starlette.types import Scope

from patchword.serving.error_response import Refusal

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
SINGLE = ("host", "origin", "content-length", "content-type", "content-encoding", "sec-fetch-site")


@dataclass(frozen=True)
class RequestRules:
    """The accepted values of Host, Origin and Content-Type, and the most bytes of a body.

    page: where requests of a browser must come from, for messages. hint: of the refusal of another site.
    untyped: the beginning of paths whose bodies may have no type; "" is none.
    """

    hosts: frozenset[str]
    origins: frozenset[str]
    body_types: tuple[str, ...]
    body_bytes: int
    page: str = "the page of this server"
    hint: str = ""
    untyped: str = ""

    def refusal(self, scope: Scope, headers: dict[str, list[str]]) -> Refusal | None:
        """Return why a request is refused; None if it is not."""
        repeated = next((name for name in SINGLE if len(headers.get(name, ())) > 1), None)
        if repeated:
            return Refusal(400, f"the header {repeated} is given more than once", closes=True)
        host, origin, site, length, kind, coding = (
            headers.get(name, [""])[0].strip().lower()
            for name in ("host", "origin", "sec-fetch-site", "content-length", "content-type", "content-encoding")
        )
        if host not in self.hosts:
            return Refusal(421, "this server has another name", "the Host of the printed address", closes=True)
        if "origin" in headers and origin not in self.origins:
            return Refusal(403, "the request comes from another origin", self.page, closes=True)
        if site not in ("", "same-origin", "none"):
            return Refusal(403, "the request comes from another site", self.page, hint=self.hint, closes=True)
        if scope["method"] not in METHODS:
            return Refusal(405, "the method is not supported", ", ".join(METHODS), closes=True)
        has_body = "transfer-encoding" in headers or length not in ("", "0")
        if not has_body and scope["method"] in ("GET", "HEAD", "DELETE"):
            return None
        if scope["method"] in ("GET", "HEAD"):
            return Refusal(400, "a GET request has no body", closes=True)
        may_lack = bool(self.untyped) and "content-type" not in headers and scope["path"].startswith(self.untyped)
        is_known = may_lack or kind.partition(";")[0].strip() in self.body_types
        if not is_known or coding not in ("", "identity"):
            expected = f"content-type: {' or '.join(self.body_types)}"
            got = f"{kind} {coding}".strip()[:80]
            return Refusal(415, "the body has another type", expected, got, closes=True)
        if length and (not length.isdecimal() or int(length[:20]) > self.body_bytes):
            most = f"at most {self.body_bytes:,} bytes"
            return Refusal(413, "the body of the request is too long", most, closes=True)
        return None
