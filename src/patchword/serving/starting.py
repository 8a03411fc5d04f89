"""Starts a server for models: checks the settings, opens and measures the models, listens."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchword.core.errors import UserError
from patchword.pipelines.opening import Precision
from patchword.serving.access import Access
from patchword.serving.api.app import build_app
from patchword.serving.api.guard import ApiAccess
from patchword.serving.api.service import Service, ServiceLimits
from patchword.serving.draining import ServiceConnection, bound_server
from patchword.serving.models.opening import Served, open_served, parse_sources
from patchword.serving.server import bind, config_of, is_loopback, names_of

_LEAST_TOKEN = 16  # characters
_STOPPING = 5.0  # seconds for the batch that is computed


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
    precision: Precision = "auto"
    download: bool = False
    queue: float = 2.0
    deadline: float = 30.0
    drain: float = 10.0


def serve_models(settings: ServeSettings, report: Callable[[str], None]) -> None:
    """Serve until a signal. report: called with lines for the user"""
    sources, token = parse_sources(settings.sources), _checked(settings)
    served = {}
    for one in sources:
        report(f"{one.name}: opening {one.source} and measuring its speed")
        found = open_served(one, settings.device, settings.precision, settings.download, settings.queue)
        served[one.name] = found
        report(_line(found))
    service = Service(served, ServiceLimits(deadline=settings.deadline))
    bound = bind(settings.host, settings.port)
    access = Access(bound.getsockname()[1], (*names_of(settings.host), *map(str.lower, settings.hostnames)))
    scheme = "https" if settings.certificate else "http"
    hosts = access.hosts() | frozenset(name.lower() for name in settings.hostnames)  # behind a proxy, without a port
    app = build_app(service, ApiAccess(hosts, frozenset(f"{scheme}://{host}" for host in hosts), token))
    config = config_of(app, ServiceConnection)
    config.ssl_certfile, config.ssl_keyfile = settings.certificate, settings.key
    asks = "a token is asked for" if token else "no token is asked for"
    report(f"listening on {scheme}://{access.names[0]}:{access.port}; {asks}; Ctrl-C or SIGTERM stops it")
    service.start()
    try:
        bound_server(config, service, settings.drain, bound)
    finally:
        service.stop()
        service.join(_STOPPING)
    report("stopped")


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


def _checked(settings: ServeSettings) -> str | None:
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


def _line(served: Served) -> str:
    model, measured = served.model, served.measured
    threads = f"{measured.full} thread{'s' if measured.full > 1 else ''}"
    speed = f"{measured.per_second:,.0f} {model.unit}/s with {threads}"
    return (
        f"{model.name}: {' and '.join(model.abilities)} for {model.reads}; {speed}, up to {measured.budget:,} per batch"
    )
