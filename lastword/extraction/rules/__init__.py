"""The extractor by rules: grammar and discourse of English, and the words of the declared keys. No model, no I/O."""
