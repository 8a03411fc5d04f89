"""Name tables: the tensor names and config fields of other libraries, per family."""
