"""Queries as text: SQL with windows, read into queries and printed from them.

The file list is the way of a text: `dialect` (tokens, grammar, printing) makes a tree of `nodes`,
`building` makes a query of the tree; `printing` goes back from a query to a tree.
"""

from lowwater.cql.building import query_of
from lowwater.cql.dialect import normal_form, parse
from lowwater.cql.printing import text_of

__all__ = ["normal_form", "parse", "query_of", "text_of"]
