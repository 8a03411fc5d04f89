"""Folder layouts of label maps, and files with class names."""
