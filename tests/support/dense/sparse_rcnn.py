"""A small Sparse R-CNN with the golden weights of mmdet, whose backbone returns the golden maps."""

from patchword.layers.dense.box_coder import BoxCoder
from patchword.layers.dense.fpn import Fpn
from patchword.layers.dense.queries.sparse_detector import SparseDetector
from patchword.layers.dense.queries.sparse_head import SparseHead
from patchword.layers.dense.roi_heads import RoiPool
from patchword.weights.names.detection import mmdet_sparse
from support.dense.detectors import CLASSES, STRIDES, WIDTH, GivenMaps, Golden, golden_detector


def golden_sparse_rcnn(heads: int = 4) -> tuple[Golden, SparseDetector]:
    golden = golden_detector("sparse_rcnn")
    pool, coder = RoiPool(STRIDES, 7, samples=2), BoxCoder((0.5, 0.5, 1.0, 1.0), clamp_below=True)
    sizes = {"heads": heads, "hidden": 32, "inner": 6, "class_layers": 1, "box_layers": 3}
    stages = [SparseHead(pool, coder, WIDTH, CLASSES, **sizes) for _ in range(2)]
    neck = Fpn((8, 12, 16, 24), WIDTH, extra=0, extra_from="pool")
    detector = SparseDetector(GivenMaps(), neck, stages, 12, WIDTH, 10, clipped=False)
    theirs = {name.removeprefix("weight."): one for name, one in golden.tensors.items() if name.startswith("weight.")}
    ours, unknown = mmdet_sparse.HEADS.to_ours(theirs)
    assert not unknown, unknown
    detector.load_state_dict(ours)
    assert {name: one.shape for name, one in mmdet_sparse.HEADS.to_theirs(ours).items()} == {
        name: one.shape for name, one in theirs.items()
    }
    return golden, detector.eval()
