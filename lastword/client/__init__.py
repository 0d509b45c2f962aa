"""The Python client: what services use to remember and to ask."""
