"""verify: compares the files of a run with its seal, and with a signature."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchword.cli.common import Json, RunArgument, Runs, console

if TYPE_CHECKING:
    from patchword.core.seal.checking import Finding
    from patchword.core.seal.manifest import Seal


def verify(
    run: RunArgument,
    reseal: Annotated[
        bool, typer.Option("--reseal", help="Accept the files as they are now; the change is recorded in the seal.")
    ] = False,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, which --reseal records.")] = "",
    key: Annotated[
        Path | None, typer.Option("--key", metavar="PUBLIC.pem", help="Also check the signature of `patchword sign`.")
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option("--signature", metavar="FILE", help="The signature of --key.", show_default="RUN/model.sig"),
    ] = None,
    as_json: Json = False,
    runs: Runs = Path("runs"),
) -> None:
    """Check that every file of a run is as it was written.

    A run has a seal, the file seal.json: the size and the sha256 of its weights, config, tokenizer, recipe, data record
    and results. It is written together with them. Whatever opens the run (predict, evaluate, embed, export, the lab,
    a training that starts from it or resumes it) compares them first, and names the first file that differs.

    This verb shows all files: ok, changed, missing, or added since. The exit code is 0 if all are ok, otherwise 1.

    A damaged file is restored from a copy of the run. After a change on purpose, such as a better text in recipe.yaml,
    --reseal accepts the files as they are, and records when and which; after other weights, evaluate the run again.

    The seal finds accidents: a faulty disk, a half-copied folder, files of another run. It is no signature: who may
    write into the folder can write a new seal, too. With --key, the files are also compared with the signature that
    `patchword sign` made, which only the owner of the private key can make.

    Examples:

      patchword verify digits-vit
      patchword verify runs/digits-vit --json
      patchword verify digits-vit --reseal --why "a better description"
      patchword verify digits-vit --key public.pem
    """
    from patchword.core.errors import UserError
    from patchword.recipes.run_folders import verification
    from patchword.recipes.run_folders.signing import SIGNATURE, compare_signature

    folder, out = folder_of(run, runs), console()
    if why and not reseal:
        raise UserError("--why has no effect without --reseal", expected="both", hint="add --reseal")
    if signature and not key:
        raise UserError("--signature has no effect without --key", expected="both", hint="add --key PUBLIC.pem")
    if reseal:
        change = verification.reseal(folder, why)
        if not as_json:
            text = f"sealed: {', '.join(change.files)}" if change else "the seal fits already"
            out.print(text, highlight=False, markup=False)
    seal, found = verification.verify_run(folder)
    signed = compare_signature(folder, key, signature) if key else []
    if as_json:
        typer.echo(json.dumps(_record(seal, found) | ({"signed": [*map(asdict, signed)]} if key else {})))
    else:
        _print(folder, seal, found)
        if key:
            _print_signed(signature or folder / SIGNATURE, signed)
    if any(finding.state != "ok" for finding in (*found, *signed)):
        raise typer.Exit(1)


def folder_of(run: Path, runs: Path) -> Path:
    """Return the folder that is meant; it need not look like a run, since files of it may be missing."""
    from patchword.core.errors import UserError
    from patchword.weights.local_path import is_model_name, local_path

    if is_model_name(run):
        return local_path(run)
    found = next((place for place in (run, runs / run) if place.is_dir()), None)
    if found is None:
        raise UserError(f"there is no folder {run}", expected=f"a run folder, or the name of a run in {runs}")
    return found


def _record(seal: "Seal", found: "list[Finding]") -> dict[str, Any]:
    return {"run": seal.run, "files": [*map(asdict, found)], "changes": [*map(asdict, seal.changes)]}


def _print_signed(signature: Path, signed: "list[Finding]") -> None:
    wrong = [finding for finding in signed if finding.state != "ok"]
    _print_findings(wrong)
    total = f"{len(wrong)} files are not as they were signed" if wrong else f"all {len(signed)} files are as signed"
    console().print(f"{signature}: {total}", highlight=False, markup=False)


def _print_findings(found: "list[Finding]") -> None:
    width = max((len(finding.name) for finding in found), default=0)
    for finding in sorted(found, key=lambda finding: finding.name):
        differs = "" if finding.state == "ok" else f"  expected {finding.expected}, got {finding.found}"
        console().print(f"{finding.name:<{width}}  {finding.state}{differs}", highlight=False, markup=False)


def _print(folder: Path, seal: "Seal", found: "list[Finding]") -> None:
    out = console()
    _print_findings(found)
    for change in seal.changes:
        why = f": {change.why}" if change.why else ""
        text = f"changed on purpose at {change.when}: {', '.join(change.files)}{why}"
        out.print(text, highlight=False, markup=False)
    wrong = sum(finding.state != "ok" for finding in found)
    total = "all files are as they were sealed" if not wrong else f"{wrong} of {len(found)} files are not as sealed"
    out.print(f"{folder}: {total}", highlight=False, markup=False)
