"""What is drawn, one step against autograd, and whether a plain structure is learned."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from patchword.core.errors import UserError
from patchword.data.text.corpus.word_counts import Vocabulary, number_words, word_splitter
from patchword.data.text.corpus.word_pairs import CHUNK, BlockSizes, PairSampler, keep_probability, negative_probability
from patchword.objectives.word_vectors import OBJECTIVES, Tables, step
from patchword.recipes.vectors.words_training import WordVectorOptions, learn, learn_numbers

LINES = ["the cat saw the dog", "a dog", "the cat , the cat", ""]


def vocabulary(*counts: int) -> Vocabulary:
    return Vocabulary(tuple(f"w{number}" for number in range(len(counts))), np.array(counts, np.int64))


def drawn(numbers: np.ndarray, drawing: PairSampler, epoch: int = 0):
    return [found for begin in range(0, len(numbers), CHUNK) for found in drawing.steps(numbers, begin, epoch)]


# Words


def test_words_are_counted_and_numbered():
    found = Vocabulary.count(LINES, word_splitter("spaces"), least=2)
    assert found.words == ("the", "cat", "dog")
    assert found.counts.tolist() == [4, 3, 2]
    numbers = number_words(LINES, word_splitter("spaces"), found)
    assert numbers.tolist() == [0, 1, 0, 2, -1, 2, -1, 0, 1, 0, 1, -1, -1]
    assert Vocabulary.count(LINES, word_splitter("spaces"), least=1, most=2).words == ("the", "cat")


def test_words_are_cut_as_asked():
    assert word_splitter("words")("The U.S. isn't—Émile's, 3.5!") == ["the", "u", "s", "isn't", "émile's", "3", "5"]
    assert word_splitter("spaces")(" The U.S.\tisn't ") == ["The", "U.S.", "isn't"]
    with pytest.raises(UserError, match="expected words, marks, spaces, got letters"):
        word_splitter("letters")


def test_too_little_text():
    with pytest.raises(UserError, match=r"at least two words that occur 5 times, got 5 different words, 12 in all"):
        Vocabulary.count(["a b c d e", "a b c d e a b"], word_splitter("words"))


# What is drawn


def test_the_keep_probability_is_that_of_word2vec():
    keep = keep_probability(np.array([9000, 999, 1]), 1e-2)
    for share, found in zip((0.9, 0.0999, 0.0001), keep, strict=True):
        assert found == pytest.approx(min(1.0, ((share / 1e-2) ** 0.5 + 1) * 1e-2 / share))
    assert keep[2] == 1
    assert keep_probability(np.array([5, 1]), 0).tolist() == [1, 1]


def test_words_are_thinned_out_by_it():
    words = vocabulary(900_000, 100_000)
    numbers = np.random.default_rng(0).choice(2, 200_000, p=[0.9, 0.1]).astype(np.int32)
    drawing = PairSampler(words, window=1, sample=1e-2, sizes=BlockSizes())
    kept = torch.cat([windows.around[:, 1:-1].flatten() for _, windows in drawn(numbers, drawing)])
    for word in (0, 1):
        wanted = (numbers == word).sum() * keep_probability(words.counts, 1e-2)[word]
        assert int((kept == word).sum()) == pytest.approx(wanted, rel=0.03, abs=32)  # the last block is filled with 0


def test_false_words_are_drawn_by_their_count_to_the_three_quarters():
    words = vocabulary(10_000, 1_000, 100, 10)
    share = negative_probability(words.counts)
    assert share[1] / share[0] == pytest.approx(0.1**0.75)
    numbers, drawing = np.zeros(100_000, np.int32), PairSampler(words, sample=0, sizes=BlockSizes())
    false = torch.cat([windows.negatives.flatten() for _, windows in drawn(numbers, drawing)])
    assert len(false) >= 100_000
    assert np.bincount(false, minlength=4) / len(false) == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize("centres", [1, 4, 32])
def test_every_pair_is_there_once_and_windows_shrink(centres):
    """Against a loop over places; each reach from 1 to the window is as frequent as any other."""
    numbers = np.arange(3000, dtype=np.int32)
    numbers[[500, 503, 1200]] = -1
    drawing = PairSampler(vocabulary(*[1] * 3000), window=3, sample=0, seed=5, sizes=BlockSizes(centres, 2, 7))
    reach, pairs = {}, []
    for _, windows in drawn(numbers, drawing):
        block, centre, other = windows.near.nonzero(as_tuple=True)
        pairs += zip(windows.around[block, centre + 3].tolist(), windows.around[block, other].tolist(), strict=True)
    for one, other in pairs:
        reach[one] = max(reach.get(one, 0), abs(one - other))
    wanted = [
        (one, other)
        for one, far in reach.items()
        for other in range(max(one - far, 0), min(one + far, 2999) + 1)
        if one != other
        and numbers[other] >= 0
        and not any(one < end < other or other < end < one for end in (500, 503, 1200))
    ]
    assert sorted(pairs) == sorted(wanted)
    assert np.bincount(list(reach.values()))[1:] / len(reach) == pytest.approx([1 / 3] * 3, abs=0.03)
    assert {501, 502, 1199, 1201} <= reach.keys()


def test_what_is_drawn_depends_on_the_seed_and_the_pass():
    words, numbers = vocabulary(*[5] * 50), np.arange(50, dtype=np.int32)

    def near(seed: int, epoch: int) -> list[float]:
        return drawn(numbers, PairSampler(words, seed=seed), epoch)[0][1].near.flatten().tolist()

    assert near(1, 0) == near(1, 0)
    assert near(1, 0) != near(2, 0)
    assert near(1, 0) != near(1, 1)


def test_few_words_make_small_steps():
    assert BlockSizes.fitting(np.full(100_000, 1e-5)) == BlockSizes()
    assert BlockSizes.fitting(np.full(100, 0.01)) == BlockSizes(blocks=9)  # 300 words
    assert BlockSizes.fitting(np.array([0.1, *[0.9 / 10_000] * 10_000])) == BlockSizes(blocks=5)  # 160 words
    assert BlockSizes.fitting(np.array([0.9, 0.1])) == BlockSizes(centres=4, blocks=1)


# The step


def pair_loss(tables, kind, around, near, false, negatives):
    """Pair by pair, as the papers write it; a step adds minus its gradient."""
    total, window = 0, (around.shape[1] - near.shape[1]) // 2
    for block, words in enumerate(around):
        for place, row in enumerate(near[block]):
            centre, others = words[place + window], words[row > 0]
            if not len(others):
                continue
            vectors = tables.inputs[others]
            if kind == "cbow":  # the value of the mean, the gradient of the sum, as in word2vec's program
                added = vectors.sum(0, keepdim=True)
                vectors = added + (added / len(others) - added).detach()
            wrong = false[block][false[block] != centre]
            for vector in vectors:
                total = total - F.logsigmoid(vector @ tables.outputs[centre])
                scores = tables.outputs[wrong] @ vector
                total = total - F.logsigmoid(-scores).sum() * negatives / false.shape[1]
    return total


def any_distance(words: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(words), torch.zeros(words)


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_a_step_is_the_gradient_of_the_objective(kind):
    tables = Tables(torch.randn(9, 6), torch.randn(9, 6))
    around, false = torch.randint(9, (3, 8)), torch.randint(9, (3, 5))  # few words: false ones meet their centres
    near = (torch.rand(3, 4, 8) < 0.4).float()
    near[1, 2] = 0  # a window without a word
    copies = Tables(*(table.clone().requires_grad_() for table in tables))
    loss = pair_loss(copies, kind, around, near, false, negatives=7)
    loss.backward()
    change = step(tables, kind, around, near, false, 7, any_distance(9), rate=0.1)
    for table, copy in zip(tables, copies, strict=True):
        torch.testing.assert_close(table, copy.detach() - 0.1 * copy.grad, rtol=1e-4, atol=1e-5)
    count = near.sum() if kind == "skip-gram" else (near.sum(2) > 0).sum()
    assert change.loss() == pytest.approx(float(loss.detach() / count), rel=1e-5)


@pytest.mark.parametrize("kind", OBJECTIVES)
@pytest.mark.parametrize("table", [0, 1])
def test_the_curves_bound_the_second_derivative(kind, table):
    """By autograd, row by row. Where all scores are 0, sigmoid * (1 - sigmoid) is half of |label - sigmoid|."""
    torch.manual_seed(0)
    around, false, near = torch.arange(8)[None], torch.tensor([[8, 0, 3]]), (torch.rand(1, 4, 8) < 0.6).float()
    for scale, row in ((1, 3), (1, 0), (0, 3)):
        tables = Tables(torch.randn(9, 6), torch.randn(9, 6))
        tables[table].mul_(scale)

        def loss(vector, tables=tables, row=row):
            moved = list(tables)
            moved[table] = torch.cat([tables[table][:row], vector[None], tables[table][row + 1 :]])
            return pair_loss(Tables(*moved), kind, around, near, false, 7)

        bend = torch.autograd.functional.hessian(loss, tables[table][row].clone())
        change = step(Tables(*map(torch.clone, tables)), kind, around, near, false, 7, any_distance(9), 0.1)
        words = [around, torch.cat([around[:, 2:6], false], 1)][table]
        bound = float([change.input_curves, change.output_curves][table].view(-1)[words[0] == row].sum())
        assert bound >= bend.trace() > 0
        assert scale or bound == pytest.approx(2 * float(bend.trace()), rel=1e-4)


def test_a_row_goes_in_the_same_direction_but_not_too_far():
    torch.manual_seed(0)
    start = Tables(torch.randn(9, 6), torch.randn(9, 6))
    around, false, near = torch.randint(9, (3, 8)), torch.randint(9, (3, 5)), torch.ones(3, 4, 8)

    def moved(crowd: float, rate: float) -> Tables:
        tables = Tables(*map(torch.clone, start))
        step(tables, "skip-gram", around, near, false, 7, (torch.full((9,), crowd), torch.full((9,), crowd)), rate)
        return Tables(*(after - before for after, before in zip(tables, start, strict=True)))

    for free, held, alone in zip(moved(0, 1), moved(4, 1), moved(1, 1), strict=True):
        assert torch.cosine_similarity(free, held).min() > 0.999
        assert (held.norm(dim=1) < 0.2 * free.norm(dim=1)).all()
        torch.testing.assert_close(held * 4, alone, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(moved(0, 1e-4), moved(4, 1e-4))


FREQUENT = vocabulary(*(10**6 // (1 + np.arange(3000))))


def stale(kind: str, rate: float, threads: int, crowd: tuple[torch.Tensor, torch.Tensor]) -> float:
    """The last loss, where as many steps as there are threads see the same vectors and all of them are then added."""
    shares = FREQUENT.counts / FREQUENT.counts.sum()
    numbers = np.random.default_rng(0).choice(3000, 50_000, p=shares).astype(np.int32)
    steps = [windows for _, windows in drawn(numbers, PairSampler(FREQUENT, sizes=BlockSizes()))]
    tables, loss = Tables.start(3000, 16, seed=0), 0.0
    for first in range(0, len(steps), threads):
        copies = [Tables(*map(torch.clone, tables)) for _ in steps[first : first + threads]]
        for copy, windows in zip(copies, steps[first:], strict=False):
            loss = step(copy, kind, *windows, 5, crowd, rate).loss()
        for number, table in enumerate(tables):
            table += sum(copy[number] - table for copy in copies)
    return loss


@pytest.mark.parametrize(("kind", "rate"), [("skip-gram", 0.05), ("cbow", 0.25)])
@pytest.mark.parametrize("threads", [1, 8])
def test_frequent_words_do_not_grow_without_end(kind, rate, threads):
    """A false word that is in every step of every thread some hundred times, while all its pairs see old vectors."""
    start, drawing = 6 * np.log(2), PairSampler(FREQUENT, sizes=BlockSizes())
    assert stale(kind, rate, threads, drawing.crowd(threads)) < 0.95 * start
    assert not stale(kind, rate, threads, any_distance(3000)) < 20 * start
    assert threads == 1 or stale(kind, rate, threads, drawing.crowd(1)) > 2 * start


def test_a_crowd_is_of_frequent_words():
    drawing = PairSampler(vocabulary(10**6, *[5] * 10**5), sizes=BlockSizes())
    for crowd in drawing.crowd(8):
        assert crowd[0] == 8
        assert 1 < crowd[1] < 1.2
    assert all((crowd == 1).all() for crowd in drawing.crowd(1))


def test_the_start_is_that_of_word2vec():
    tables = Tables.start(500, 20, seed=3)
    assert 0.49 / 20 < tables.inputs.abs().max() <= 0.5 / 20
    assert abs(float(tables.inputs.mean())) < 1e-3
    assert not tables.outputs.any()
    assert torch.equal(tables.inputs, Tables.start(500, 20, seed=3).inputs)


# Learning


def grouped(sentences: int = 600) -> list[str]:
    """Three groups of words that never meet."""
    rng = np.random.default_rng(0)
    names = np.array([[f"{group}{number}" for number in range(8)] for group in "abc"])
    return [" ".join(rng.choice(names[number % 3], 8)) for number in range(sentences)]


QUICK = WordVectorOptions(width=16, window=3, epochs=3, sample=0, learning_rate=0.05)


def learned(wish: WordVectorOptions):
    words = Vocabulary.count(grouped(), word_splitter("words"))
    return learn_numbers(words, number_words(grouped(), word_splitter("words"), words), wish)


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_words_that_meet_become_near(kind):
    found = learned(replace(QUICK, kind=kind))
    for word in ("a0", "b3", "c7"):
        assert {name[0] for name, _ in found.vectors.near(word, 7)} == {word[0]}
    assert 0 < found.done.loss < 3.5  # at the start, 6 log 2 = 4.16


def twins(sentences: int = 2000, count: int = 12) -> list[str]:
    """Pairs of words that never meet, but stand in the same company, which is frequent for some and rare for others."""
    rng = np.random.default_rng(0)
    number = np.minimum(rng.geometric(0.2, sentences) - 1, count - 1)
    company = [[f"c{each}x{place}" for place in range(3)] for each in range(count)]
    halves = [(rng.permutation(company[each]), rng.choice(["a", "b"])) for each in number]
    return [
        f"{first} {second} {letter}{each} {third} the"
        for each, ((first, second, third), letter) in zip(number, halves, strict=True)
    ]


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_words_in_the_same_company_become_near_though_they_never_meet(kind):
    """Not if only one table learns, nor if a step sums so many pairs of a frequent word that it overshoots."""
    words = Vocabulary.count(twins(), word_splitter("words"))
    wish = replace(QUICK, kind=kind, epochs=6, sample=1e-2)
    found = learn_numbers(words, number_words(twins(), word_splitter("words"), words), wish).vectors
    pairs = [(f"a{each}", f"b{each}") for each in range(12)]
    assert all(name in found for pair in pairs for name in pair)
    right = [found.near(one, 1)[0].word == other for pair in pairs for one, other in (pair, pair[::-1])]
    assert sum(right) >= 22


def test_one_thread_gives_the_same_vectors_and_two_nearly_so():
    short = replace(QUICK, epochs=1)
    first, again, other = learned(short), learned(short), learned(replace(short, seed=1))
    assert np.array_equal(first.vectors.vectors, again.vectors.vectors)
    assert not np.array_equal(first.vectors.vectors, other.vectors.vectors)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)  # one that learning does not set itself
    assert {name[0] for name, _ in learned(replace(QUICK, threads=2)).vectors.near("a0", 7)} == {"a"}
    left = torch.get_num_threads()
    torch.set_num_threads(threads)
    assert left == threads + 1


@pytest.mark.parametrize("threads", [1, 2])
def test_the_rate_falls_to_its_end(monkeypatch, threads):
    """Whoever reads a part of the text, its rate is that of the part's place in the whole."""
    for place in ("recipes.vectors.words_training", "data.text.corpus.word_pairs"):
        monkeypatch.setattr(f"patchword.{place}.CHUNK", 2000)
    rates = []
    monkeypatch.setattr(
        "patchword.recipes.vectors.words_training.step",
        lambda *given: rates.append(given[-1]) or step(*given),
    )
    learned(replace(QUICK, threads=threads))
    assert threads > 1 or rates == sorted(rates, reverse=True)
    rates.sort(reverse=True)
    assert 0.045 < rates[0] < 0.05
    assert rates[-1] < 0.05 * 0.01
    assert np.std(np.diff(rates)) < 0.2 * -np.mean(np.diff(rates)) or len(rates) < 10


def test_progress_ends_with_everything(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(grouped(300)))
    heard = []
    found = learn([tmp_path / "text.txt"], replace(QUICK, epochs=2), on_progress=heard.append)
    assert heard[-1].words == heard[-1].total == 2 * 8 * 300
    assert [done.words for done in heard] == sorted(done.words for done in heard)
    assert found.vocabulary.total == 8 * 300


@pytest.mark.parametrize(
    ("field", "value"), [("kind", "glove"), ("width", 0), ("learning_rate", 0.0), ("cut", "x"), ("threads", 0)]
)
def test_a_wish_that_cannot_be(field, value):
    with pytest.raises(UserError, match=field):
        replace(QUICK, **{field: value})


@pytest.mark.parametrize("loss", [3.1 * 6 * np.log(2), 5e19, float("inf"), float("nan")])
def test_an_absurd_loss_is_an_error(monkeypatch, loss):
    monkeypatch.setattr("patchword.objectives.word_vectors.Change.loss", lambda change: loss)
    with pytest.raises(UserError, match=r"diverges: expected a loss below 4\.2.* got .* with a learning rate of 0\.05"):
        learned(QUICK)


def test_a_loss_is_absurd_by_the_number_of_negatives(monkeypatch):
    monkeypatch.setattr("patchword.objectives.word_vectors.Change.loss", lambda change: 15.0)
    assert learned(replace(QUICK, epochs=1, negatives=9)).done.loss == 15
    with pytest.raises(UserError, match="diverges"):
        learned(replace(QUICK, epochs=1))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_rate_too_high_is_borne_or_an_error(monkeypatch, threads):
    wish = replace(QUICK, learning_rate=5.0, threads=threads)
    assert {name[0] for name, _ in learned(wish).vectors.near("a0", 7)} == {"a"}
    with pytest.raises(UserError, match="diverges"):
        learned(replace(wish, learning_rate=float("inf")))
    monkeypatch.setattr("patchword.objectives.word_vectors._FARTHEST", float("inf"))
    with pytest.raises(UserError, match="diverges"):
        learned(wish)
