"""From plain objects to compiled simulations: lowering, seeds, replications, chunks, results."""
