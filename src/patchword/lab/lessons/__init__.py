"""Lessons: guided walks through views of the lab, each in a Markdown file; a teacher may add her own."""
