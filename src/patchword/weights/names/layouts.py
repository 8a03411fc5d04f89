"""The list of all name tables; a new family adds one line."""

from patchword.weights.names.detection import detr, mmdet, mmdet_reppoints, mmdet_sparse, torchvision
from patchword.weights.names.segmentation import huggingface, mmseg, torchvision_segmentation
from patchword.weights.names.text import albert, bert, bigbird, distilbert, ernie, gpt, grover, mobilebert, roberta, xlm
from patchword.weights.names.vision import cswin, cvt, mixer, pvt, regnet, resnet, swin, vit, vit_jax

# The first layout whose distinct names are all in a file is used.
LAYOUTS = (
    *mmseg.LAYOUTS,  # before mmdet, whose neck has the same names
    *huggingface.LAYOUTS,
    *torchvision_segmentation.LAYOUTS,
    *mmdet_reppoints.LAYOUTS,
    *mmdet_sparse.LAYOUTS,
    *mmdet.LAYOUTS,
    *torchvision.LAYOUTS,
    *detr.LAYOUTS,
    *vit.LAYOUTS,
    *vit_jax.LAYOUTS,
    *swin.LAYOUTS,
    *cvt.LAYOUTS,
    *cswin.LAYOUTS,
    *pvt.LAYOUTS,
    *mixer.LAYOUTS,
    *resnet.LAYOUTS,
    *regnet.LAYOUTS,
    *mobilebert.LAYOUTS,
    *bigbird.LAYOUTS,  # distinguished from BERT, which has the same prefix, by the pooler
    *bert.LAYOUTS,
    *bigbird.WITHOUT_POOLER,
    *xlm.LAYOUTS,
    *albert.LAYOUTS,
    *distilbert.LAYOUTS,
    *ernie.LAYOUTS,
    *roberta.LAYOUTS,
    *gpt.LAYOUTS,
    *grover.LAYOUTS,
)
