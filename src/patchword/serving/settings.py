"""What a server is asked for, checked before anything is opened; it imports nothing slow."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchword.core.errors import UserError
from patchword.serving.log import LogFormat
from patchword.serving.server import is_loopback

if TYPE_CHECKING:
    from patchword.pipelines.opening import Precision

_LEAST_TOKEN = 16  # characters


@dataclass(frozen=True)
class ServeSettings:
    """What `patchword serve` is asked for; each field is an option of the verb.

    queue: seconds of work that may wait. deadline: seconds until a request is answered. drain: seconds after SIGTERM.
    """

    sources: tuple[str, ...]
    port: int = 8000
    host: str = "127.0.0.1"
    hostnames: tuple[str, ...] = ()
    token_file: Path | None = None
    allow_remote: bool = False
    without_token: bool = False
    certificate: Path | None = None
    key: Path | None = None
    device: str = "auto"
    precision: "Precision" = "auto"
    download: bool = False
    queue: float = 2.0
    deadline: float = 30.0
    drain: float = 10.0
    log_format: LogFormat = "text"


def read_token(path: Path) -> str:
    """Return the token in a file."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the token in {path}", got=getattr(error, "strerror", None) or "no text") from None
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        expected = f"one line of at least {_LEAST_TOKEN} letters and digits"
        hint = f"""make one: python -c "import secrets; print(secrets.token_urlsafe(32))" > {path}"""
        raise UserError(f"the token in {path} cannot be used", expected=expected, hint=hint)
    return token


def checked_token(settings: ServeSettings) -> str | None:
    """Check who may connect and how, before models are opened; return the token."""
    if settings.token_file and settings.without_token:
        raise UserError("two answers to who may ask", expected="one of --token-file and --without-token")
    token = read_token(settings.token_file) if settings.token_file else None
    is_remote = not is_loopback(settings.host)
    if is_remote and not settings.allow_remote:
        hint = f"safer is a tunnel: ssh -L {settings.port}:127.0.0.1:{settings.port} MACHINE"
        what = f"--host {settings.host} lets other machines connect"
        raise UserError(what, expected="--allow-remote as well", hint=hint)
    if settings.allow_remote and not is_remote:
        raise UserError("--allow-remote needs an address that others reach", expected="--host, e.g. --host 0.0.0.0")
    if is_remote and token is None and not settings.without_token:
        hint = "--without-token lets everybody who reaches the address ask"
        raise UserError("other machines can connect", expected="--token-file FILE", hint=hint)
    if (settings.certificate is None) != (settings.key is None):
        raise UserError("TLS needs two files", expected="--tls-certificate and --tls-key")
    if settings.certificate and settings.key:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certificate, settings.key)
        except (OSError, ssl.SSLError) as error:
            what = f"cannot use {settings.certificate} and {settings.key} for TLS"
            raise UserError(
                what, expected="a certificate and its key, as PEM", got=error.strerror or str(error)
            ) from None
    return token
