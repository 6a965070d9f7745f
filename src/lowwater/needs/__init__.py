"""Needs: statements of what the user needs, and the policy that sets the other policies by them."""
