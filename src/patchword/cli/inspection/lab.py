"""lab: serves the page of the lab on this machine, or writes it as a handout."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from patchword.cli.completion import model_names


def lab(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN|MODEL]...",
            help="Run folders or their names inside `runs`, a folder of runs, model folders, zoo:NAME. The zoo is "
            "always listed.",
            autocompletion=model_names,
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 0,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open no browser.")] = False,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let other machines connect, with --host; not encrypted.")
    ] = False,
    lessons: Annotated[
        Path | None,
        typer.Option("--lessons", metavar="FOLDER", help="Your own lessons, as Markdown files such as 01-name.md."),
    ] = None,
    handout: Annotated[
        tuple[str, Path] | None,
        typer.Option("--handout", metavar="PAGES OUT", help="Write these pages into one HTML file, and start nothing."),
    ] = None,
) -> None:
    """Open the lab in the browser: one local page in which words and patches are seen, tried and trained.

    It shows the models of the zoo, and the runs and models that you name: what their heads attend to in a text or an
    image, windows and receptive fields, translations with their beam search, position encodings, embeddings, the cost
    line by line, live trainings, loss landscapes. Nine guided lessons lead through the pages.

    The page comes from this machine, asks no other machine, and needs no network. It is printed with a token, without
    which no other program and no other page can use it. Ctrl-C stops it.

    --handout writes pages into one HTML file that works without patchword and without a server, e.g. for the page of a
    course.

    Lessons walk through its pages in the order of the lectures. --lessons adds your own: the lab shows how to write one
    on its page Lessons, and checks the files when it starts.

    To use the lab of another machine, start it there with --port 8765 --no-browser, and open the printed address here
    after: ssh -L 8765:127.0.0.1:8765 MACHINE

    Examples:

      patchword lab
      patchword lab runs
      patchword lab runs/demo zoo:vit-exercise
      patchword lab --port 8765 --no-browser
      patchword lab --lessons my-lessons
      patchword lab --handout cost,draw out.html
    """
    from patchword.core.errors import UserError
    from patchword.lab.bundle import PAGE, read_bundle

    if handout is not None:
        _write(*handout)
        return
    if missing := [name for name in ("starlette", "uvicorn", "httptools") if find_spec(name) is None]:
        what = f"the lab needs {', '.join(missing)}"
        raise UserError(what, expected='the extra "lab"', hint='pip install "patchword[lab]"')
    from patchword.lab.app import LabSettings, build_app
    from patchword.lab.lessons.reading import read_lessons
    from patchword.lab.lessons.views import known_pages
    from patchword.lab.models import list_models
    from patchword.serving.access import Access
    from patchword.serving.server import bind, is_loopback, names_of, open_browser, serve

    if not is_loopback(host) and not allow_remote:
        hint = (
            "the connection is not encrypted: who can read it has the token, and with it your models and runs.\n"
            f"Safer is a tunnel: ssh -L {port or 8765}:127.0.0.1:{port or 8765} MACHINE"
        )
        raise UserError(f"--host {host} lets other machines connect", expected="--allow-remote as well", hint=hint)
    if allow_remote and is_loopback(host):
        raise UserError("--allow-remote needs an address that others reach", expected="--host, e.g. --host 0.0.0.0")
    bundle, listed = read_bundle(PAGE), list_models(models or ())
    read = read_lessons(known_pages(bundle), lessons)
    bound = bind(host, port)
    access = Access(bound.getsockname()[1], names_of(host))
    app = build_app(LabSettings(access, bundle, listed, read))
    typer.echo(f"the lab, with {len(listed)} models; Ctrl-C stops it. Open:\n  {access.address}")
    if not no_browser:
        open_browser(access.address)
    serve(app, bound)


def _write(pages: str, path: Path) -> None:
    """Write a handout; it needs no server, hence no extra."""
    from patchword.lab.bundle import PAGE, read_bundle
    from patchword.lab.handout import MODEL, read_pages, write_handout
    from patchword.lab.models import list_models

    wanted, bundle = read_pages(pages), read_bundle(PAGE)
    size = write_handout(path, wanted, bundle, list_models([])[MODEL])
    typer.echo(f"{path}  ({size / 1e6:.1f} MB; pages: {', '.join(wanted)})")
