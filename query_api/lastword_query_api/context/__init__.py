"""Contexts: the few cited records that a model is handed for one task, kept as they were, and checked since."""
