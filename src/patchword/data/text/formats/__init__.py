"""Readers and writers of text file formats: tables, CoNLL, SQuAD, GLUE, news, parallel text and word vectors."""
