"""Measures headrace and its peers in one run: `headrace bench env`, `headrace bench train`."""
