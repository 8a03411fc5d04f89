"""The stream of a run: what is new, once; cut back on resume; taken up again from its last event; and bounded."""

import asyncio
import json
import shutil

import pytest

from patchword.core.errors import UserError
from patchword.lab.context import Lab
from patchword.lab.routes import runs as routes
from patchword.lab.run_folders.feed import MOST_RUNS, Feed
from patchword.training.lock.lock import exclusive
from support.lab.runs import add_epoch, add_steps, write_run


@pytest.fixture
def runs(tmp_path):
    folder = write_run(tmp_path / "runs" / "demo", epochs=9, done=2, finished=False)
    lab = Lab(None, {}, runs=tmp_path / "runs")
    lab.run_list.scan()
    lab.run_list._next_scan = float("inf")
    lab.folder = folder
    yield lab.run_list, folder
    lab.opened.close()


def events(text: str) -> list[tuple[str, dict, str]]:
    found = []
    for block in text.strip().split("\n\n") if text else []:
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((lines["event"], json.loads(lines["data"]), lines["id"]))
    return found


def names(found) -> list[str]:
    return [name for name, _, _ in found]


def test_everything_is_sent_once(runs):
    listed, folder = runs
    feed = Feed(listed, ["demo"])
    first = events(feed.poll())
    assert names(first) == ["step", "epoch", "epoch", "confusion", "confusion", "state"]
    assert [record["step"] for record in first[0][1]["records"]] == list(range(1, 21))
    assert feed.poll() == ""
    add_steps(folder, 21, 23)
    ((name, data, id),) = events(feed.poll())
    assert (name, [record["step"] for record in data["records"]], id) == ("step", [21, 22, 23], "23.2")
    with (folder / "steps.jsonl").open("a") as file:
        file.write('{"step":24,"epoch":2.4,')
    assert feed.poll() == ""
    with (folder / "steps.jsonl").open("a") as file:
        file.write('"loss":NaN}\n')
    ((_, data, _),) = events(feed.poll())
    assert data["records"] == [{"step": 24, "epoch": 2.4, "loss": None}]


def test_a_broken_connection_goes_on_after_its_last_event(runs):
    listed, folder = runs
    add_epoch(folder, 3)
    found = events(Feed(listed, ["demo"], "12.2").poll())
    assert names(found) == ["step", "epoch", "confusion", "state"]
    assert [record["step"] for record in found[0][1]["records"]] == list(range(13, 31))
    assert found[1][1]["record"]["epoch"] == 3
    for wrong in ("12", "a.b", "1.1,2.2", "-1.0", "9" * 40 + ".1"):
        assert len(events(Feed(listed, ["demo"], wrong).poll())[0][1]["records"]) == 30


def test_a_resumed_run_is_cut_back(runs):
    listed, folder = runs
    feed = Feed(listed, ["demo"])
    feed.poll()
    for name in ("steps.jsonl", "metrics.jsonl", "confusion.jsonl"):
        lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / f"{name}.new").write_text("".join(lines[: 12 if name == "steps.jsonl" else 1]))
        (folder / f"{name}.new").replace(folder / name)
    found = events(feed.poll())
    assert (found[0][0], found[0][1]) == ("cut", {"run": "demo", "step": 12, "epoch": 1})
    add_steps(folder, 13, 14)
    ((name, data, id),) = events(feed.poll())
    assert (name, [record["step"] for record in data["records"]], id) == ("step", [13, 14], "14.1")


def test_a_thinned_file_sends_nothing_again(runs):
    listed, folder = runs
    feed = Feed(listed, ["demo"])
    feed.poll()
    lines = (folder / "steps.jsonl").read_text().splitlines(keepends=True)
    (folder / "new").write_text("".join(lines[1::2]))
    (folder / "new").replace(folder / "steps.jsonl")
    assert feed.poll() == ""
    add_steps(folder, 21, 21)
    assert [record["step"] for record in events(feed.poll())[0][1]["records"]] == [21]


def test_the_state_follows_the_lock(runs):
    listed, folder = runs
    feed = Feed(listed, ["demo"])
    feed.poll()
    assert not feed.is_live()
    with exclusive(folder):
        ((name, data, _),) = events(feed.poll())
        assert (name, data["state"]) == ("state", "running")
        assert feed.is_live()
    assert events(feed.poll())[0][1]["state"] == "stopped"


def test_a_deleted_run_is_gone_once_and_comes_back(runs):
    listed, folder = runs
    feed = Feed(listed, ["demo"])
    feed.poll()
    kept = folder.with_name(".kept")
    shutil.copytree(folder, kept)
    shutil.rmtree(folder)
    assert names(events(feed.poll())) == ["gone"]
    assert feed.poll() == ""
    kept.rename(folder)
    assert "gone" not in names(events(feed.poll()))


def test_a_new_run_changes_the_list(runs):
    listed, folder = runs
    feed = Feed(listed, [])
    assert feed.poll() == ""
    write_run(folder.with_name("second"), epochs=1)
    listed._next_scan = 0
    assert names(events(feed.poll())) == ["list"]


def test_a_run_that_is_deleted_while_it_is_read_is_gone(runs, monkeypatch):
    listed, folder = runs
    feed = Feed(listed, ["demo", "nothing"])
    whole = listed.one

    def one(id):
        shutil.rmtree(folder)
        return whole(id)

    monkeypatch.setattr(listed, "one", one)
    assert [data["run"] for name, data, _ in events(feed.poll()) if name == "gone"] == ["demo", "nothing"]


def test_too_many_runs_are_refused(runs):
    listed, _ = runs
    with pytest.raises(UserError, match="too many runs"):
        Feed(listed, ["demo"] * (MOST_RUNS + 1))


class Page:
    """A page that opens a stream, and leaves on request."""

    def __init__(self, app, path: str, query: str = "", method: str = "GET") -> None:
        self.left, self.messages = asyncio.Event(), []
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": []}
        self.asked = False
        self.task = asyncio.create_task(app({**scope, "asgi": {"version": "3.0"}}, self.receive, self.send))

    async def receive(self):
        if not self.asked:
            self.asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message) -> None:
        self.messages.append(message)

    async def until(self, text: str) -> None:
        for _ in range(1000):
            if text in b"".join(message.get("body", b"") for message in self.messages).decode():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{text} never came: {self.messages}")


@pytest.fixture
def fast_app(tmp_path, monkeypatch):
    """An app whose streams look at their runs all the time, and the folder of the run demo."""
    from starlette.applications import Starlette

    for name, seconds in (("LIVE_SECONDS", 0.02), ("IDLE_SECONDS", 0.02), ("BEAT_SECONDS", 0.05)):
        monkeypatch.setattr(routes, name, seconds)
    folder = write_run(tmp_path / "runs" / "demo", epochs=9, done=1, finished=False)
    lab = Lab(None, {}, runs=tmp_path / "runs")
    yield Starlette(routes=routes.routes(lab)), folder
    lab.opened.close()


def test_a_thousand_abandoned_streams_leave_no_trace(fast_app):
    app, _ = fast_app

    async def scenario() -> tuple[list[int], int]:
        pages = [Page(app, "/api/events", "run=demo") for _ in range(1000)]
        for page in pages[: routes.MOST_STREAMS]:
            await page.until("event: state")
        for page in pages:
            page.left.set()
        await asyncio.wait_for(asyncio.gather(*(page.task for page in pages)), 60)
        again = [Page(app, "/api/events", "run=demo") for _ in range(routes.MOST_STREAMS)]
        for page in again:
            await page.until("event: state")
            page.left.set()
            await asyncio.wait_for(page.task, 5)
        return [page.messages[0]["status"] for page in pages], len(asyncio.all_tasks())

    statuses, tasks = asyncio.run(scenario())
    assert statuses == [200] * routes.MOST_STREAMS + [429] * (1000 - routes.MOST_STREAMS)
    assert tasks == 1  # this one


def test_head_opens_no_stream(fast_app, monkeypatch):
    app, _ = fast_app
    monkeypatch.setattr(routes, "MOST_STREAMS", 0)

    async def scenario() -> int:
        page = Page(app, "/api/events", "run=demo", "HEAD")
        await asyncio.wait_for(page.task, 5)
        return page.messages[0]["status"]

    assert asyncio.run(scenario()) == 200


def test_streams_are_limited_and_end_with_their_pages(fast_app, monkeypatch):
    monkeypatch.setattr(routes, "MOST_STREAMS", 3)
    app, folder = fast_app

    async def scenario() -> list[int]:
        pages = [Page(app, "/api/events", "run=demo") for _ in range(2)] + [Page(app, "/api/runs/demo/events")]
        for page in pages:
            await page.until("event: state")
            await page.until(": beat")
        refused = Page(app, "/api/events")
        await refused.task
        add_steps(folder, 11, 12)
        await pages[2].until('"step":12')
        pages[0].left.set()
        await asyncio.wait_for(pages[0].task, 5)
        after = Page(app, "/api/events", "run=demo&after=11.1")
        await after.until('"step":12')
        assert '"step":11,' not in str(after.messages)
        for page in [*pages, after]:
            page.left.set()
            await asyncio.wait_for(page.task, 5)
        again = [Page(app, "/api/events", "run=demo") for _ in range(3)]
        for page in again:
            await page.until("event: state")
            page.left.set()
            await asyncio.wait_for(page.task, 5)
        return [refused.messages[0]["status"], *(page.messages[0]["status"] for page in [*pages, after, *again])]

    assert asyncio.run(scenario()) == [429, *[200] * 7]
