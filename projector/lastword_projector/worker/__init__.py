"""The projector worker: from Kafka, through the fold, into the stores. Composed by `lastword` alone."""
