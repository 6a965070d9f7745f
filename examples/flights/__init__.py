"""The flights of New York in 2013, replayed out of order and checked."""
