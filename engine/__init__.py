"""Steps environments: compilation, memory, threads and the vector environment."""
