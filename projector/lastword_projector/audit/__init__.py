"""The grounding audit: everything that Redis holds is derived again from the log, and compared.

`recompute` folds the log with the very engine of the workers, `compare` is the pure comparison, `auditor` reads log and
store beside running workers. What is found is a `Violation`; where it halts something, `GroundingInvariantViolation`.
"""
