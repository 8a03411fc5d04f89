"""BEFORE A RUN: real steps of a recipe whose results are not kept: dry run, learning-rate finder, batch size."""
