"""The pure core: decode, verdict, fold. No I/O, no clock, no randomness; everything is handed in."""
