"""The routes below `/api/v1`. Each names the role that it needs, by the type of its caller."""
