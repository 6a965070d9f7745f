"""Early results: policies that request prods, and estimates of final values (PROD)."""
