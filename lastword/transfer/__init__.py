"""Moving memories: what an export holds, and how other systems' files become statements. Only `files` does I/O."""
