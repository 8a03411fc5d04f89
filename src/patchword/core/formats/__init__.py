"""Foreign formats of files that are read without trusting them: YAML, safetensors, sentence-transformers."""
