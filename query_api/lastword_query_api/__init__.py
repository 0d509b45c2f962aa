"""Reading: what applies now, what applied then, and why."""
