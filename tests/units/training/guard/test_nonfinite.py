"""Non-finite losses and gradients never reach weights or buffers, and the samples that cause them are named."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from patchword.core.errors import UserError
from patchword.data.image.batches import Batch
from patchword.layers import TokenLosses
from patchword.objectives.classification import Classification, Outcome
from patchword.recipes import find_recipe
from patchword.recipes import train as recipe_run
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.train import train
from patchword.training.guard import nonfinite as guard_module
from patchword.training.guard.nonfinite import NonFiniteGuard
from patchword.training.guard.oom_retry import OomRetry
from patchword.training.guard.report import nonfinite_samples
from patchword.training.optimizer import adamw
from patchword.training.sam import SharpnessAware, Steepest
from patchword.training.state import State
from patchword.training.step import PlainStep
from support.batch_norm_model import SIZE, assert_equal, batch_of, model_of
from support.material import QUICK, differing, silent, write_classes
from support.tiny_texts import QUICK as QUICK_TEXTS
from support.tiny_texts import vocabulary_of, write_table


class NoGradient(torch.autograd.Function):
    """The identity with a non-finite gradient, such as that of the square root at 0."""

    @staticmethod
    def forward(_: object, scores: Tensor) -> Tensor:
        return scores.clone()

    @staticmethod
    def backward(_: object, gradient: Tensor) -> Tensor:
        return gradient * float("nan")


class Planted:
    """Classification with a non-finite loss or gradient for some samples."""

    def __init__(self, model: nn.Module, kind: str, rows: Sequence[int]) -> None:
        self.plain, self.kind, self.rows = Classification(model, 0.1), kind, torch.tensor([*rows])

    def __call__(self, piece: Batch, batch: Batch) -> Outcome:
        outcome = self.plain(piece, batch)
        if not torch.isin(piece.samples, self.rows).any():
            return outcome
        match self.kind:
            case "gradient":
                return Outcome(NoGradient.apply(outcome.loss), outcome.right)
            case "apart":  # infinite, and its gradient is that of the finite part
                return Outcome(outcome.loss + float("inf"), outcome.right)
            case "overflow":
                return Outcome((outcome.loss.half() * 3e4 * 3e4).float(), outcome.right)
            case "inputs":
                spoiled = torch.where(
                    torch.isin(piece.samples, self.rows)[:, None, None, None], torch.nan, piece.inputs
                )
                return self.plain(piece._replace(inputs=spoiled), batch)
        raise ValueError(self.kind)


def guarded(
    model: nn.Module,
    objective: object,
    folder: Path,
    *,
    sam: float = 0.0,
    bias_correction: bool = True,
    on_nonfinite: str = "skip",
    **options: object,
) -> NonFiniteGuard:
    plain = PlainStep(objective, adamw(model, 1e-2, 0.05, bias_correction=bias_correction), **options)
    step = SharpnessAware(plain, model, Steepest(sam)) if sam else plain
    messages: list[str] = []
    guard = NonFiniteGuard(
        OomRetry(step, plain, model, messages.append), plain, model, folder, messages.append, on_nonfinite=on_nonfinite
    )
    guard.messages = messages
    return guard


def taken(guard: NonFiniteGuard, numbers: Sequence[int], state: State | None = None) -> State:
    """Take steps on these batches, as the loop does."""
    state = state or State()
    for number in numbers:
        torch.manual_seed(number)
        batch = batch_of(number)
        loss, _ = guard(batch, 1e-2)
        assert loss.isfinite()
        state.step, state.batch, state.seen = state.step + 1, state.batch + 1, state.seen + batch.weight
        guard.on_step(state, batch)
    return state


# A non-finite step changes nothing


@pytest.mark.parametrize("kind", ["gradient", "apart", "overflow", "inputs"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"clip_norm": 1.0, "micro_batches": 3},
        {"sam": 0.05},
        {"sam": 0.05, "micro_batches": 2, "bias_correction": False},
    ],
    ids=["plain", "clipped", "sam", "all"],
)
def test_a_nonfinite_step_changes_nothing(tmp_path, kind, options):
    """Weights, moments and statistics are bit-equal to those of a run without that batch."""
    model = model_of()
    guard = guarded(model, Planted(model, kind, [SIZE + 5]), tmp_path, **options)
    state = taken(guard, [0, 1, 2, 3])
    assert (state.nonfinite_steps, state.nonfinite_in_a_row, state.seen, state.step) == (1, 0, 3 * SIZE, 4)
    other = model_of()
    without = guarded(other, Classification(other, 0.1), tmp_path, **options)
    taken(without, [0])
    taken(without, [2, 3])
    assert_equal(guard, without)


def test_a_nonfinite_first_step_changes_nothing(tmp_path):
    model = model_of()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    taken(guarded(model, Planted(model, "inputs", [0]), tmp_path), [0])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_without_the_guard_statistics_would_be_spoiled(tmp_path):
    """Otherwise the comparisons above would compare nothing."""
    model = model_of()
    plain = PlainStep(Planted(model, "inputs", [5]), adamw(model, 1e-2, 0.05))
    assert plain(batch_of(), 1e-2)[0].isnan()
    assert any(not value.isfinite().all() for value in model.state_dict().values())
    assert all(weight.isfinite().all() for weight in model.parameters())


def test_an_optimizer_that_cannot_check_is_not_called(tmp_path):
    model = model_of()
    plain = PlainStep(Planted(model, "gradient", [5]), torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))
    before = [weight.detach().clone() for weight in model.parameters()]
    taken(NonFiniteGuard(plain, plain, model, tmp_path, print, on_nonfinite="skip"), [0])
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_step_reads_nothing_from_the_device():
    """Fake tensors cannot be read, as those of a GPU should not be; only reading the result does."""

    def step_of(kind: Callable[[nn.Module], torch.optim.Optimizer]) -> NonFiniteGuard:
        model = nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.BatchNorm1d(8), nn.Linear(8, 7))
        plain = PlainStep(Classification(model), kind(model), clip_norm=1.0)
        guard = NonFiniteGuard(OomRetry(plain, plain, model, print), plain, model, Path("nowhere"), print)
        guard(Batch(torch.randn(4, 3, 4, 4), torch.arange(4), torch.arange(4)), 1e-3)
        return guard

    with FakeTensorMode():
        guard = step_of(lambda model: adamw(model, 1e-3, 0.1))
        with pytest.raises(DataDependentOutputException):
            guard.on_step(State(batch=1, step=1), None)
        with pytest.raises(DataDependentOutputException):
            step_of(lambda model: torch.optim.SGD(model.parameters(), 0.1))


# Samples


@pytest.mark.parametrize("rows", [(5,), (0, 11), (3, 4, 5), tuple(range(SIZE))])
def test_the_samples_are_found(rows):
    model = model_of()
    plain = PlainStep(Planted(model, "inputs", rows), adamw(model, 1e-2, 0.05))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = nonfinite_samples(batch_of(), plain, model)
    assert [piece.samples.tolist() for piece in found] == [[row] for row in rows]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())
    assert all(part.training for part in model.modules())


def test_the_search_leaves_the_model_unchanged():
    """A batch norm cannot train on a single sample; buffers that count forward passes do not count the search."""

    class Counting(nn.Flatten):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("passes", torch.zeros(()))

        def forward(self, images: Tensor) -> Tensor:
            self.passes += 1
            return super().forward(images)

    model = nn.Sequential(Counting(), nn.Linear(3 * 32 * 32, 4), nn.BatchNorm1d(4), nn.Linear(4, 7)).train()
    plain = PlainStep(Planted(model, "gradient", [5]), adamw(model, 1e-2, 0.05))
    assert [piece.samples.tolist() for piece in nonfinite_samples(batch_of(), plain, model)] == [[5]]
    assert model[0].passes == 0
    assert model[2].num_batches_tracked == 0


def test_samples_that_are_nonfinite_only_together_are_reported_as_such(tmp_path):
    model = model_of()

    class Together(Planted):
        def __call__(self, piece: Batch, batch: Batch) -> Outcome:
            return super().__call__(piece, batch) if len(piece.samples) == SIZE else self.plain(piece, batch)

    guard = guarded(model, Together(model, "gradient", [5]), tmp_path)
    taken(guard, [0])
    report = json.loads((tmp_path / "bad" / "step-1.json").read_text())
    assert not report["alone"]
    assert len(report["rows"]) == SIZE
    assert "no single sample, only these together: sample 0, sample 1, sample 2 and 9 more" in guard.messages[0]


def test_a_batch_without_a_finite_sample_is_reported_as_such(tmp_path, monkeypatch):
    """The search covers all samples, even if it does not test each one."""
    for tries in (512, 4):
        monkeypatch.setattr("patchword.training.guard.report.MAX_TRIES", tries)
        model = model_of()
        guard = guarded(model, Planted(model, "gradient", range(SIZE)), tmp_path / str(tries))
        taken(guard, [0])
        assert f"all {SIZE} samples of the batch" in guard.messages[0]


def test_the_report_has_the_samples_as_the_model_received_them(tmp_path):
    model = model_of()
    guard = guarded(model, Planted(model, "overflow", [SIZE + 4, SIZE + 7]), tmp_path)
    taken(guard, [0, 1])
    report = json.loads((tmp_path / "bad" / "step-2.json").read_text())
    assert report["rows"] == ["sample 16", "sample 19"]
    assert report["batch_rows"] == [f"sample {number}" for number in range(SIZE, 2 * SIZE)]
    assert (report["epoch"], report["batch"], report["step"], report["alone"]) == (1, 2, 2, True)
    kept = load_file(tmp_path / "bad" / "step-2.safetensors")
    assert torch.equal(kept["0.inputs"], batch_of(1).inputs[4:5])
    assert torch.equal(kept["1.samples"], torch.tensor([19]))
    assert guard.messages == [
        "the loss is inf in epoch 1, step 2; the step is skipped. Cause: sample 16, sample 19. "
        f"To do: see {tmp_path / 'bad' / 'step-2.json'}; fix or remove these samples; "
        "if they are correct, lower the learning rate (learning_rate) or clip gradients (clip_norm)"
    ]


def test_the_run_stops_if_the_user_chose_that(tmp_path):
    model = model_of()
    guard = guarded(model, Planted(model, "gradient", [5]), tmp_path, on_nonfinite="stop")
    expected = (
        r"the gradient is non-finite in epoch 1, step 1: got sample 5\n.*step-1\.json.*\n--resume on_nonfinite=skip"
    )
    with pytest.raises(UserError, match=expected):
        taken(guard, [0])


@pytest.mark.parametrize(
    ("bad", "steps", "message"),
    [(range(3, 99), 12, "10 steps in a row"), (range(0, 99, 2), 20, "11 steps had to be skipped")],
    ids=["in a row", "too many"],
)
def test_the_run_stops_after_too_many_skipped_steps(tmp_path, monkeypatch, bad, steps, message):
    monkeypatch.setattr(guard_module, "MAX_REPORTS", 2)
    model = model_of()
    guard = guarded(model, Planted(model, "gradient", [SIZE * number for number in bad]), tmp_path)
    state = State()
    with pytest.raises(UserError, match=message):
        taken(guard, range(99), state)
    assert state.step == steps + 1
    assert len(list((tmp_path / "bad").glob("*.json"))) == 2


# Whole runs


def watch_model(monkeypatch: pytest.MonkeyPatch, look: Callable[[object], bool]) -> None:
    """The model of the next runs returns NaN for inputs that `look` finds."""
    original = recipe_run.build_task

    def gathered(*arguments: object) -> object:
        task = original(*arguments)

        def spoil(_: object, inputs: tuple[object, ...], answer: Tensor | TokenLosses) -> Tensor | TokenLosses:
            if not task.model.training or not look(inputs[0]):
                return answer
            if isinstance(answer, TokenLosses):
                return answer._replace(losses=answer.losses * float("nan"))
            return answer * float("nan")

        task.model.register_forward_hook(spoil)
        return task

    monkeypatch.setattr(recipe_run, "build_task", gathered)


def images(folder: Path, *fields: str) -> Recipe:
    """A recipe on images of two classes; one image is white."""
    from PIL import Image

    write_classes(folder / "train", count=12)
    write_classes(folder / "test", count=2)
    Image.new("L", (8, 8), 255).save(folder / "train" / "cat" / "white.png")
    plain = (
        "augmentation.flip=0",
        "augmentation.shift=0",
        "augmentation.random_erasing=0",
        "validation=0.2",
        "ema_decay=0.9",
    )
    size = ("model.image=8", "model.channels=1")
    return find_recipe("image-folder-vit").with_settings(
        [f"data={folder}", *QUICK, *size, *plain, "epochs=3", "batch_size=4", *fields]
    )


def masked_words(folder: Path, *fields: str) -> Recipe:
    """A recipe on a corpus in which one word occurs in one document only."""
    words = [f"{first}{second}" for first in "abcdefgh" for second in "aeiou"]
    vocabulary_of([*words, "zz", "."], folder / "tokenizer")  # also creates the folder
    lines = [" ".join(words[(7 * line + place) % len(words)] for place in range(10)) + "." for line in range(40)]
    lines[11] = "zz zz zz zz zz zz."
    (folder / "texts.txt").write_text("\n".join(lines) + "\n")
    fixed = (
        "documents=line",
        "length=16",
        "batch_size=4",
        "held_out=0.1",
        "epochs=2",
        "sentences=packed",
        "ema_decay=0.9",
    )
    named = (f"text={folder / 'texts.txt'}", f"tokenizer={folder / 'tokenizer'}")
    return find_recipe("bert-pretrain").with_settings([*QUICK_TEXTS, *fixed, *named, *fields])


def look_of(kind: str, folder: Path) -> Callable[[object], bool]:
    if kind == "vision":
        return lambda images: bool((images.flatten(1).std(1) == 0).any())
    number = (folder / "tokenizer" / "vocab.txt").read_text().splitlines().index("zz")
    return lambda text: bool((text.ids == number).any())


@pytest.mark.parametrize("kind", ["vision", "masked words"])
def test_one_bad_sample_of_a_run(tmp_path, monkeypatch, kind):
    """Weights stay finite and the sample is named; stopping and resuming gives the same result as skipping."""
    make = {"vision": images, "masked words": masked_words}[kind]
    sample = {"vision": "white.png", "masked words": "zz zz"}[kind]
    recipe = make(tmp_path / "data", "on_nonfinite=skip")
    watch_model(monkeypatch, look_of(kind, tmp_path / "data"))
    console = silent()
    assert train(recipe, tmp_path / "skip", console)
    output = "".join(console.file.getvalue().split("\n"))
    assert "the loss is nan in epoch 1, step" in output
    for file in ("model.safetensors", "checkpoints/*/tensors.safetensors"):
        for path in (tmp_path / "skip").glob(file):
            assert all(tensor.isfinite().all() for tensor in load_file(path).values())
    reports = [json.loads(path.read_text()) for path in (tmp_path / "skip" / "bad").glob("*.json")]
    assert len(reports) >= recipe.epochs - 1
    assert all(report["alone"] and all(sample in name for name in report["rows"]) for report in reports)
    assert all(len(report["batch_rows"]) == 4 for report in reports)
    stopping = recipe.with_settings(["on_nonfinite=stop"])
    with pytest.raises(UserError, match=rf"the loss is nan in epoch 1, step \d+: got .*{sample}"):
        train(stopping, tmp_path / "stop", silent())
    with pytest.raises(UserError, match="the loss is nan in epoch 1, step"):
        train(stopping, tmp_path / "stop", silent(), resume=True)
    assert train(recipe, tmp_path / "stop", silent(), resume=True)
    assert differing(tmp_path / "stop" / "model.safetensors", tmp_path / "skip" / "model.safetensors") == []


def test_a_line_of_a_table_is_named(tmp_path, monkeypatch):
    rows = [(f"{'ab' if number % 2 else 'cd'} ef {'zz' if number == 9 else 'gh'}", number % 2) for number in range(20)]
    write_table(tmp_path / "rows.csv", rows)
    vocabulary_of(["ab", "cd", "ef", "gh", "zz"], tmp_path / "tokenizer")
    watch_model(monkeypatch, look_of("table", tmp_path))
    fields = (f"train={tmp_path / 'rows.csv'}", f"validation={tmp_path / 'rows.csv'}", "batch_size=4")
    recipe = find_recipe("classify-text").with_settings(
        [*QUICK_TEXTS, *fields, f"tokenizer={tmp_path / 'tokenizer'}", "model.name=bert-tiny"]
    )
    with pytest.raises(UserError, match=r"rows\.csv, line 11 \(ab ef zz\)"):
        train(recipe, tmp_path / "run", silent())
