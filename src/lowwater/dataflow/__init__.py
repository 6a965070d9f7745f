"""Dataflow: operators, ports and routes, and how rows, watermarks and prods pass through them."""
