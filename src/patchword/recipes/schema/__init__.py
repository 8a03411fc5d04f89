"""The recipe as a file: its fields, their valid values, the older names of fields, and reading from YAML."""
