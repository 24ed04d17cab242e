"""Learns from steps: collectors, advantages, learners, policies, and runs on disk.

Read train.py first: it is a training run from top to bottom.
"""
