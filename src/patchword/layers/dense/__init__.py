"""Parts of detectors: backbones, necks, anchors, box coder, dense heads, heads of boxes and masks, selection."""
