"""Learners: what policies learn from measurements, such as lateness, rates and errors.

A learner is a record of numbers that fades with time, and pure functions over it. Policies share
learners; a learner knows no policy.
"""
