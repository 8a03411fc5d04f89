"""Tokenizers: WordPiece, byte-pair, unigram and character vocabularies; loading, training, encoding and saving."""
