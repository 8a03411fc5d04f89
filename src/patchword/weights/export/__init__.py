"""Export to ONNX and torch.export files, optionally with 8-bit integers."""
