"""What is computed of graphs before any training: clusters, coarser graphs, receptive fields."""
