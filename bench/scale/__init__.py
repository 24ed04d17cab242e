"""`headrace scale`: what more replicas buy and what they cost."""
