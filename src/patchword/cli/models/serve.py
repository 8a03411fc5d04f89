"""serve: answers over HTTP for trained models."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from patchword.cli.common import Device, Download, Precision
from patchword.cli.completion import model_names

_NEEDED = {
    "starlette": "starlette",
    "uvicorn": "uvicorn",
    "httptools": "httptools",
    "python_multipart": "python-multipart",
}


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]RUN|MODEL...",
            help="Runs, model folders, zoo:NAME or hf:OWNER/REPO, each with the name that requests give it.",
            autocompletion=model_names,
        ),
    ],
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 8000,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="Ask for the token in this file: Authorization: Bearer TOKEN."
        ),
    ] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let other machines connect, with --host and --token-file.")
    ] = False,
    without_token: Annotated[
        bool, typer.Option("--without-token", help="Let every machine that reaches the address ask.")
    ] = False,
    hostname: Annotated[
        list[str] | None,
        typer.Option("--hostname", metavar="NAME", help="A name of this server, e.g. behind a proxy. Repeatable."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", metavar="FILE", help="Speak HTTPS with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate.")
    ] = None,
    queue: Annotated[
        float, typer.Option("--queue", min=0.1, help="Seconds of work that may wait; more is refused with 429.")
    ] = 2.0,
    deadline: Annotated[
        float, typer.Option("--deadline", min=0.1, help="Seconds until a request is answered, or fails with 504.")
    ] = 30.0,
    drain: Annotated[
        float, typer.Option("--drain", min=0.0, help="Seconds for accepted requests after Ctrl-C or SIGTERM.")
    ] = 10.0,
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option("--log-format", help="json: one object per line on stderr, also one per request."),
    ] = "text",
    device: Device = "auto",
    precision: Precision = "auto",
    download: Download = False,
) -> None:
    """Answer for trained models over HTTP, in batches, until Ctrl-C or SIGTERM.

    POST /predict takes JSON ({"inputs": ["a text"]}), a plain text, an image, or a form with images. POST
    /fill, /generate and /translate are those of language models, token by token with "stream": true. POST
    /v1/embeddings is OpenAI's, for its clients; /v2 is the Open Inference Protocol of KServe and Triton. GET /models
    lists what is served; GET /health/ready and /metrics are for orchestrators and Prometheus.

    The speed of each model is measured at the start. Requests share batches; when more than --queue seconds of work
    wait, further requests are refused at once with 429 and Retry-After. SIGTERM finishes what was accepted, within
    --drain seconds; a second signal ends at once. If the process that answers dies, another one takes its place.

    Only this machine can connect, unless --host and --allow-remote say otherwise; then a token is asked for.

    Examples:

      patchword serve runs/reviews
      curl localhost:8000/predict -H 'content-type: text/plain' -d 'What a film!'
      patchword serve minilm=models/all-MiniLM-L6-v2 runs/photos --port 8080
      patchword serve runs/reviews --host 0.0.0.0 --allow-remote --token-file token.txt
    """
    from patchword.core.errors import UserError

    if missing := [package for module, package in _NEEDED.items() if find_spec(module) is None]:
        what = f"the server needs {', '.join(missing)}"
        raise UserError(what, expected='the extra "serve"', hint='pip install "patchword[serve]"')
    from patchword.serving.log import report_json
    from patchword.serving.server import bind
    from patchword.serving.settings import ServeSettings, checked_token
    from patchword.serving.supervisor import Supervisor, report_line, serve_settings

    settings = ServeSettings(
        sources=tuple(models),
        port=port,
        host=host,
        hostnames=tuple(hostname or ()),
        token_file=token_file,
        allow_remote=allow_remote,
        without_token=without_token,
        certificate=tls_certificate,
        key=tls_key,
        device=device,
        precision=precision,
        download=download,
        queue=queue,
        deadline=deadline,
        drain=drain,
        log_format=log_format,
    )
    checked_token(settings)
    with bind(settings.host, settings.port) as bound:
        Supervisor(serve_settings, settings, bound, report_json if log_format == "json" else report_line).run()
