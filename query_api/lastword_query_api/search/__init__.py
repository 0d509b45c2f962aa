"""Search: which of the records that apply now are about something. Currency is never a matter of score."""
