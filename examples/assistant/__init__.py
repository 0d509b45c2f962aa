"""An assistant made of two services and an extractor, which share what they know of people through lastword."""
