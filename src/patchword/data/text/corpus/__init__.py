"""Text corpora: documents and sentences from files, tokenised caches, pretraining examples, word counts and pairs."""
