"""Code that only the comparison methods of the paper's tables need.

- `graph_kernels`: graphlet, shortest-path and Weisfeiler-Lehman kernels, and their SVM
- `graclus`: the clusters of DiffPool-Det; `fixed_clusters`: pooling with them, and two controls
- `ecc`: edge-conditioned convolution, the Kron pyramid and pooling along it
- `patchy_san`: receptive fields and the convolutions over them
- `set2set`, `sort_pool`: readouts; `structure2vec`: an encoder
- `prepare`: precomputed structures for an architecture; `cache` keeps them on disk
"""
