"""The use cases of the CLI and the Python API, one function each; they return values."""
