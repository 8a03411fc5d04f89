"""Projections and neighbours of vectors, compared with scikit-learn and brute force."""

import numpy as np
import pytest
import torch

from patchword.analysis import embeddings
from patchword.analysis.embeddings import Method, neighbour_agreement, neighbours, pca, project
from patchword.core.errors import UserError


def drawn(count: int = 60, width: int = 12) -> np.ndarray:
    mixing = np.diag(np.linspace(3, 0.1, width))
    return (np.random.default_rng(0).normal(size=(count, width)) @ mixing + 5).astype(np.float32)


def test_pca_is_the_projection_on_the_largest_variance():
    given = drawn()
    found = pca(given)
    _, values, directions = torch.pca_lowrank(torch.as_tensor(given).double(), q=12, niter=10)
    for axis in range(3):
        expected = (given - given.mean(0)) @ directions[:, axis].numpy()
        sign = np.sign(expected @ found.points[:, axis])
        np.testing.assert_allclose(found.points[:, axis], sign * expected, atol=1e-4)
    np.testing.assert_allclose(found.explained, (values.square() / values.square().sum())[:3], atol=1e-6)
    assert np.array_equal(found.points, pca(given).points)


def test_the_signs_of_pca_do_not_depend_on_the_solver():
    given = drawn()
    axes = np.linalg.lstsq(given - given.mean(0), pca(given).points, rcond=None)[0]
    assert (axes[np.abs(axes).argmax(0), range(3)] > 0).all()


def test_vectors_that_differ_by_rounding_alone_are_one_point():
    same = np.full((20, 8), 3.3, np.float32)
    same[3] = np.nextafter(same[3], np.float32(9))
    assert not pca(same).points.any()
    assert pca(same).explained == (0.0, 0.0, 0.0)
    assert not pca(drawn(2)).points[:, 1:].any()
    with pytest.raises(UserError, match="all vectors are the same"):
        project("tsne", same, 2)


def test_tsne_is_seeded():
    pytest.importorskip("sklearn")
    first, second = (project("tsne", drawn(), 2).points for _ in range(2))
    assert first.shape == (60, 2)
    assert np.array_equal(first, second)


def test_neighbours_equal_brute_force():
    given = drawn()
    cosines = [
        float(given[7].astype(float) @ one / np.linalg.norm(given[7].astype(float)) / np.linalg.norm(one))
        for one in given.astype(float)
    ]
    expected = sorted((row for row in range(60) if row != 7), key=lambda row: -cosines[row])[:5]
    found = neighbours(given, 7, 5)
    assert [row for row, _ in found] == expected
    assert [cosine for _, cosine in found] == pytest.approx([cosines[row] for row in expected], abs=1e-12)


def test_the_agreement_counts_nearest_neighbours_of_the_same_label():
    given = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1], [1, 0.4]], np.float32)
    assert neighbour_agreement(given, [0, 0, 1, 1, 1]) == pytest.approx(4 / 5)


@pytest.mark.parametrize(
    ("name", "message"), [("map", "pca, tsne, umap"), ("gone", "not installed.*\n.*pip install x")]
)
def test_an_unknown_or_missing_projection_is_an_error(monkeypatch, name, message):
    methods = {**embeddings.METHODS, "gone": Method("Gone", pca, "no_such_module", "x")}
    monkeypatch.setattr(embeddings, "METHODS", methods if name == "gone" else embeddings.METHODS)
    with pytest.raises(UserError, match=message):
        project(name, drawn(), 2)
