"""The process that answers: opens and measures the models, serves on a socket."""

import os
import socket
from collections.abc import Callable

from patchword.serving.access import Access
from patchword.serving.api.app import build_app
from patchword.serving.api.guard import ApiAccess
from patchword.serving.api.service import Service, ServiceLimits
from patchword.serving.draining import ServiceConnection, bound_server
from patchword.serving.log import log_as_json, write_json
from patchword.serving.models.opening import Served, open_served, parse_sources
from patchword.serving.server import config_of, names_of
from patchword.serving.settings import ServeSettings, checked_token

_STOPPING = 5.0  # seconds for the batch that is computed


def serve_models(
    settings: ServeSettings, bound: socket.socket, report: Callable[[str], None], ready: Callable[[], None]
) -> None:
    """Serve on a socket until a signal.

    report: called with lines for the user, unless the log is JSON. ready: called when requests are read
    """
    as_json = settings.log_format == "json"
    report = log_as_json() if as_json else report
    sources, token = parse_sources(settings.sources), checked_token(settings)
    served = {}
    for one in sources:
        report(f"{one.name}: opening {one.source} and measuring its speed")
        found = open_served(one, settings.device, settings.precision, settings.download, settings.queue)
        served[one.name] = found
        report(_line(found))
    limits = ServiceLimits(deadline=settings.deadline)
    service = Service(served, limits, write_json) if as_json else Service(served, limits)
    access = Access(bound.getsockname()[1], (*names_of(settings.host), *map(str.lower, settings.hostnames)))
    scheme = "https" if settings.certificate else "http"
    hosts = access.hosts() | frozenset(name.lower() for name in settings.hostnames)  # behind a proxy, without a port
    app = build_app(service, ApiAccess(hosts, frozenset(f"{scheme}://{host}" for host in hosts), token))
    config = config_of(app, ServiceConnection)
    config.ssl_certfile, config.ssl_keyfile = settings.certificate, settings.key
    asks = "a token is asked for" if token else "no token is asked for"
    report(f"listening on {scheme}://{access.names[0]}:{access.port}; {asks}; Ctrl-C or SIGTERM stops it")
    report(f"process {os.getpid()} answers; if it dies, another one takes its place")
    service.start()
    ready()
    try:
        bound_server(config, service, settings.drain, bound, report)
    finally:
        service.stop()
        service.join(_STOPPING)
    report("stopped")


def _line(served: Served) -> str:
    model, measured = served.model, served.measured
    threads = f"{measured.full} thread{'s' if measured.full > 1 else ''}"
    speed = f"{measured.per_second:,.0f} {model.unit}/s with {threads}"
    return (
        f"{model.name}: {' and '.join(model.abilities)} for {model.reads}; {speed}, up to {measured.budget:,} per batch"
    )
