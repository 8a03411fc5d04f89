"""Attention maps, rollout, relevance and distances."""
