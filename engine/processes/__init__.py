"""Python environments in worker processes: one batch over memory that all of them share."""
