"""The index of the lectures: commands parse, figures have sources and files, the pages are up to date."""

import re
import shlex
from functools import cache

import pytest
import typer

from patchword.analysis.published.tables.table import published_tables
from patchword.cli.app import app
from patchword.core.errors import UserError
from patchword.lectures.index import COUNTED, Item, chosen_decks, decks, items
from patchword.models import REGISTRY
from patchword.studies import STUDIES, find_recipe
from support.source_code import ROOT, load_tool

EVERY = pytest.mark.parametrize("item", items(), ids=lambda item: item.id)
WRONG = (typer.BadParameter.__mro__[2],)  # click's error of usage, which typer does not export
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def parse(command: str) -> dict[str, object]:
    """Parse a command as the command line does, without running it; return the values of its parameters."""
    program, *words = shlex.split(command)
    assert program == "patchword"
    context = typer.main.get_command(app).make_context("patchword", words)
    while hasattr(context.command, "resolve_command"):
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        if not rest:  # a group that does something by itself, such as `patchword recipes`
            break
        name, inner, rest = context.command.resolve_command(context, rest)
        context = inner.make_context(name, rest, parent=context)
    return {"verb": context.info_name, **context.params}


@cache
def counted() -> str:
    """The counts of every image and text model, as they are printed."""
    variants = [REGISTRY.find(name)[1] for name in REGISTRY.names()]
    return " ".join(f"{variant.parameters:,} {variant.macs:,}" for variant in variants)


@EVERY
def test_every_command_parses(item):
    for command in (*item.command, *item.small):
        parsed = parse(command)
        if "recipe" in parsed:
            check_recipe(parsed)
        model = str(parsed.get("model") or "zoo:vit-exercise")
        assert model.startswith(("zoo:", "runs/")) or model in REGISTRY.names()


def check_recipe(parsed: dict[str, object]) -> None:
    """Check that a recipe or study exists and has the fields, but for those that name files that are not here."""
    name = str(parsed["recipe"])
    settings = [
        text
        for text in parsed["fields"] or ()
        if text.partition("=")[0] not in asked(name)
        and (not text.startswith("model=") or text.removeprefix("model=") in REGISTRY.names())
    ]
    (STUDIES[name]() if name in STUDIES else find_recipe(name)).with_settings(settings)


def asked(name: str) -> set[str]:
    """The settings that a study asks for, such as files that do not exist here."""
    return set(STUDIES[name]().asks) if name in STUDIES else set()


@pytest.mark.parametrize(
    "command",
    ["patchword", "patchword lectur", "patchword show", "patchword lecture --deck x", "patchword show a b=1 --no"],
)
def test_the_parser_finds_a_wrong_command(command):
    with pytest.raises((typer.Exit, *WRONG)):
        parse(command)


@EVERY
def test_published_figures_have_a_source(item):
    assert item.table == "" or item.table in published_tables()
    assert not (item.table or item.published) or item.where()


@EVERY
def test_result_files_exist_and_hold_our_figures(item):
    """One source for each figure: a page of the documentation that is changed makes the index stale."""
    files = [file for file in item.result if file != COUNTED]
    assert all((ROOT / file).is_file() for file in files)
    pages = [file for file in files if file.endswith(".md")]
    held = " ".join((ROOT / page).read_text(encoding="utf-8") for page in pages)
    held += counted() if COUNTED in item.result else ""
    numbers = set(NUMBER.findall(held))
    words = set(NUMBER.findall(re.sub(r"[A-Za-z]+-?\d+", "", item.ours)))  # without names such as SST-2 and float32
    assert {word for word in words if word not in numbers} == set()


def test_all_published_tables_are_in_the_index():
    assert {item.table for item in items()} - {""} == published_tables().keys()


def test_items_are_chosen_by_words_and_deck():
    chosen = chosen_decks(["swin", "coco"])
    assert [item.id for deck in chosen for item in deck.items()][:1] == ["swin-coco-systems"]
    assert [deck.number for deck in chosen_decks([], 4)] == [4]
    assert len(chosen_decks([])) == len(decks()) == 5
    with pytest.raises(UserError, match="nothing in deck 4 matches 'pvt'"):
        chosen_decks(["pvt"], 4)
    with pytest.raises(UserError, match="there is no deck 6: expected 1 to 5"):
        chosen_decks([], 6)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "a command, or a state"),
        ({"state": "not yet"}, "why it does not run"),
        ({"command": ("patchword demo",), "published": "80%"}, "the source"),
        ({"command": ("patchword demo",), "ours": "80%"}, "the file that holds them"),
    ],
)
def test_an_item_that_is_not_complete_is_refused(fields, expected):
    with pytest.raises(UserError, match=expected):
        Item(id="one", item="One", **fields)


def test_the_pages_are_up_to_date():
    stale = [path.name for path, text in load_tool("lectures").files().items() if path.read_text("utf-8") != text]
    assert stale == [], "run `make stubs`"
