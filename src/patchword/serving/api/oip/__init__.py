"""THE OPEN INFERENCE PROTOCOL (KServe, Triton) over HTTP: requests and answers as tensors."""
