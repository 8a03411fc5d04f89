"""sign: signs the files of a run with a private key."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from patchword.cli.common import Json, RunArgument, Runs, console
from patchword.cli.run_folders.verify import folder_of

_VARIABLE = "PATCHWORD_KEY_PASSWORD"


def sign(
    run: RunArgument,
    key: Annotated[
        Path, typer.Option("--key", metavar="KEY.pem", help="Your private key, on the curve P-256 or more.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where the signature goes.", show_default="RUN/model.sig"),
    ] = None,
    as_json: Json = False,
    runs: Runs = Path("runs"),
) -> None:
    """Sign a run with your private key, so that others can check that it is yours and unchanged.

    All files of the seal are signed: weights, config, tokenizer, recipe, data record and results, and the seal itself.
    A file that was changed since it was sealed is refused. The signature goes into RUN/model.sig, in the form of
    OpenSSF's model signing; it is made without a network. After `evaluate` or --reseal, sign the run again.

    Others check it with your public key: patchword verify RUN --key PUBLIC.pem. The package model-signing can do so,
    too: model_signing verify key RUN --signature RUN/model.sig --public-key PUBLIC.pem --ignore-unsigned-files

    The keys are PEM files on the curve P-256, P-384 or P-521, which openssl makes. The password of an encrypted one is
    asked, or read from the variable PATCHWORD_KEY_PASSWORD.

      openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem
      openssl pkey -in key.pem -pubout -out public.pem

    Examples:

      patchword sign digits-vit --key key.pem
      patchword verify digits-vit --key public.pem
    """
    from patchword.recipes.run_folders.signing import SIGNATURE, sign_run

    folder = folder_of(run, runs)
    names, written = sign_run(folder, key, lambda: _password(key), out), out or folder / SIGNATURE
    if as_json:
        typer.echo(json.dumps({"signature": str(written), "files": names}))
    else:
        console().print(f"{written}: {len(names)} files are signed", highlight=False, markup=False)


def _password(key: Path) -> str:
    from patchword.core.errors import UserError

    if (given := os.environ.get(_VARIABLE)) is not None:
        return given
    if not sys.stdin.isatty():
        raise UserError(f"{key} is encrypted", expected="its password", hint=f"set {_VARIABLE}")
    return str(typer.prompt(f"password of {key}", hide_input=True, err=True))
