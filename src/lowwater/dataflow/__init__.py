"""The dataflow of a query: the way of rows, watermarks and prods through operators and routes."""
