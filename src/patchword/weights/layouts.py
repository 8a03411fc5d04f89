"""The list of name tables; a new family adds a line."""

from patchword.weights import bert, cswin, cvt, mixer, pvt, regnet, resnet, swin, vit, vit_jax

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
    *bert.LAYOUTS,
)
