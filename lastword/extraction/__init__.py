"""Extraction: what a message says that is worth remembering, and why the rest is not."""

from lastword.extraction.admission import Admission
from lastword.extraction.endpoint import Endpoint, EndpointExtractor
from lastword.extraction.hot_path import Extracted, extract_now
from lastword.extraction.protocol import (
    Candidate,
    Extraction,
    ExtractionFailed,
    Extractor,
    ExtractorUnavailable,
    Message,
    NotProposed,
    Why,
)
from lastword.extraction.rules.extractor import RuleExtractor

__all__ = [
    "Admission",
    "Candidate",
    "Endpoint",
    "EndpointExtractor",
    "Extracted",
    "Extraction",
    "ExtractionFailed",
    "Extractor",
    "ExtractorUnavailable",
    "Message",
    "NotProposed",
    "RuleExtractor",
    "Why",
    "extract_now",
]
