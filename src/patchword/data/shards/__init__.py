"""Data sets in shards: files of a few hundred megabytes in one or more folders, read in place."""
