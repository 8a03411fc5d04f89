"""Sets in shards: files of some hundred megabytes, in as many folders as it takes, read where they lie."""
