"""A lesson in a real browser: each step opens its view, and stays on while its reader does other things."""

from urllib.parse import parse_qs

import pytest

from patchword.lab.bundle import PAGE, read_bundle
from patchword.lab.lessons.reading import read_lessons
from patchword.lab.lessons.views import known_pages
from support.lab.browser import Open, expect

LESSONS = read_lessons(known_pages(read_bundle(PAGE)))
COST = "#/cost?model=vit-exercise&depth=8&lesson=the-transformer.5"


def address(page):
    """The page and the fields of the address."""
    name, _, query = page.evaluate("location.hash").removeprefix("#/").partition("?")
    return name, {field: values[0] for field, values in parse_qs(query, keep_blank_values=True).items()}


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_every_view_opens_and_keeps_its_fields(visit: Open, lesson) -> None:
    """A page that rewrites its address has read the fields: none may have another value afterwards."""
    page = visit("#/lessons", (1366, 768)).page
    page.locator("[data-lessons]").get_by_role("link", name=lesson.title, exact=True).click()
    for number, step in enumerate(lesson.steps, 1):
        expect(page.locator("[data-progress]")).to_have_text(f"Step {number} of {len(lesson.steps)}")
        expect(page.get_by_role("complementary", name="Lesson").get_by_role("heading")).to_have_text(step.title)
        page.wait_for_timeout(700)  # the address follows after 200 ms
        wanted = {key: values[0] for key, values in parse_qs(step.view.partition("?")[2]).items()}
        for _ in range(60):
            name, fields = address(page)
            if all(fields.get(key, value) == value for key, value in wanted.items()):
                break
            page.wait_for_timeout(250)
        assert (name, fields["lesson"]) == (step.view[2:].partition("?")[0], f"{lesson.name}.{number}")
        assert {key: fields.get(key, value) for key, value in wanted.items()} == wanted
        assert page.get_by_role("alert").count() == 0, step.title
        page.keyboard.press("n")
    expect(page.get_by_role("button", name="All lessons")).to_be_visible()


def test_keys_and_buttons_go_through_a_lesson(visit: Open) -> None:
    page = visit("#/cost?lesson=the-transformer.5").page
    progress = page.locator("[data-progress]")
    expect(progress).to_have_text("Step 5 of 6")
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    for key, step in (("n", 6), ("p", 5), ("PageDown", 6), ("PageDown", 6), ("PageUp", 5)):
        page.keyboard.press(key)
        expect(progress).to_have_text(f"Step {step} of 6")
    page.get_by_role("button", name="Next").click()
    expect(progress).to_have_text("Step 6 of 6")
    expect(page.locator("output[for=field-image]")).to_have_text("56 pixels")
    page.get_by_role("button", name="All lessons").click()
    expect(page.locator("[data-lessons]")).to_be_visible()
    expect(page.locator("[data-lesson]")).to_have_count(0)


def test_a_lesson_stays_on_until_it_is_ended(visit: Open) -> None:
    page = visit(COST).page
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    page.locator("#field-depth").press("ArrowRight")
    page.wait_for_timeout(400)
    assert address(page)[1]["lesson"] == "the-transformer.5"
    page.get_by_role("link", name="Draw", exact=True).click()
    expect(page.locator("[data-figure=heads]")).to_be_visible()
    page.wait_for_timeout(400)
    assert address(page)[1]["lesson"] == "the-transformer.5"
    page.reload()
    page.get_by_role("button", name="Back to this step").click()
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    page.get_by_role("button", name="Hide the text").click()
    expect(page.locator("[data-task]")).to_have_count(0)
    page.get_by_role("button", name="End the lesson").click()
    expect(page.locator("[data-lesson]")).to_have_count(0)
    assert "lesson" not in address(page)[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("size", "projector"), [((1366, 768), False), ((1366, 768), True), ((390, 844), False)])
def test_the_bar_is_accessible_and_fits(visit: Open, theme: str, size: tuple[int, int], projector: bool) -> None:
    found = visit(COST, size, theme, projector)
    expect(found.page.locator("[data-task]")).to_be_visible()
    expect(found.page.locator("[data-check=agrees]")).to_be_visible()
    assert found.overflow() <= 0
    assert not found.violations()
    box = found.page.locator("[data-lesson]").bounding_box()
    assert box["y"] + box["height"] <= size[1] + 1
    assert box["height"] < size[1] / 2


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_the_bar_is_slim_on_a_laptop(visit: Open, lesson) -> None:
    """With the longest step of a lesson it takes an eighth of the window, and folded a line."""
    longest = max(range(len(lesson.steps)), key=lambda number: len(str(lesson.steps[number].text)))
    page = visit(f"{lesson.steps[longest].view}&lesson={lesson.name}.{longest + 1}").page
    expect(page.locator("[data-task]")).to_be_visible()
    assert page.locator("[data-lesson]").bounding_box()["height"] <= 96
    page.get_by_role("button", name="Hide the text").click()
    expect(page.locator("[data-task]")).to_have_count(0)
    assert page.locator("[data-lesson]").bounding_box()["height"] <= 48
    page.get_by_role("button", name="Show the text").click()
    expect(page.locator("[data-task]")).to_be_visible()


@pytest.mark.parametrize("place", ["nothing.1", "the-transformer.99"])
def test_an_unknown_lesson_is_said(visit: Open, place: str) -> None:
    page = visit(f"#/cost?lesson={place}").page
    expect(page.get_by_role("complementary", name="Lesson")).to_contain_text("There is no")
    page.get_by_role("button", name="End the lesson").click()
    expect(page.locator("[data-lesson]")).to_have_count(0)
