"""Parts of detectors: anchors, box coder, mask targets, necks."""
