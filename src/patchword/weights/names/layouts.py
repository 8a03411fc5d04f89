"""The list of name tables; a new family adds a line."""

from patchword.weights.names.text import albert, bert, bigbird, distilbert, ernie, gpt, grover, mobilebert, roberta, xlm
from patchword.weights.names.vision import cswin, cvt, mixer, pvt, regnet, resnet, swin, vit, vit_jax

# The first layout whose names are in a file is the file's.
LAYOUTS = (
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
    *bigbird.LAYOUTS,  # the pooler tells them from BERT's, whose prefix they have
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
