"""The embeddings of all graphs in two dimensions."""

from __future__ import annotations

import numpy as np

METHODS = ("pca", "tsne")
ROUNDS = 20  # of orthogonal iteration
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


def next_plane(vectors: np.ndarray, axes: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The same by PCA [B, 2], and its axes [D, 2], from the `axes` for slightly different embeddings before.

    The axes do not change their order or sign from call to call, and take a tenth of the time of `plane`.
    """
    spread = vectors.std(0)
    x = (vectors - vectors.mean(0)) / np.where(spread > 1e-9, spread, np.inf)
    if axes is None:
        axes = np.eye(x.shape[1], 2)
        found = np.linalg.svd(x.astype(np.float64), full_matrices=False)[2][:2].T
        axes[:, : found.shape[1]] = found
    for _ in range(ROUNDS):
        axes, triangle = np.linalg.qr(x.T @ (x @ axes))
        axes = axes * np.where(np.diag(triangle) < 0, -1.0, 1.0)[: axes.shape[1]]
    points = np.zeros((len(x), 2))
    points[:, : axes.shape[1]] = x @ axes
    return points / max(float(np.abs(points).max(initial=0)), 1e-9), axes
