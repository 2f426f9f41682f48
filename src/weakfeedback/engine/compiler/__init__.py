"""From plain objects to compiled code: analysis of code and fields, compilation, and the cache."""
