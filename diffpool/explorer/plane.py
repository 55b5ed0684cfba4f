"""The embeddings of all graphs in two dimensions."""

from __future__ import annotations

import numpy as np

METHODS = ("pca", "tsne")
MIN_TSNE = 5  # graphs; fewer are projected by PCA


def plane(vectors: np.ndarray, method: str = "pca") -> np.ndarray:
    """Standardized embeddings [B, D], projected by PCA or t-SNE and scaled to [-1, 1]: [B, 2]."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if not len(vectors):
        return np.zeros((0, 2))
    spread = vectors.std(0)
    x = (vectors - vectors.mean(0))[:, spread > 1e-9] / spread[spread > 1e-9]
    x = x.astype(np.float64)
    found = np.zeros((len(x), 2))
    if method == "tsne" and len(x) >= MIN_TSNE and x.shape[1]:
        perplexity = min(30.0, (len(x) - 1) / 3)
        start = "pca" if min(x.shape) >= 2 else "random"
        found = TSNE(2, perplexity=perplexity, init=start, random_state=0).fit_transform(x)
    elif count := min(2, *x.shape):
        found[:, :count] = PCA(count, random_state=0).fit_transform(x)
    return found / max(float(np.abs(found).max()), 1e-9)
