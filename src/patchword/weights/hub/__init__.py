"""Pretrained models by name: hf:OWNER/REPO[@REVISION], in the cache of huggingface_hub."""
