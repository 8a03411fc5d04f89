"""Seq2seq."""
