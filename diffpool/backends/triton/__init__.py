"""Triton kernels for a GPU. Every one has a slow twin elsewhere in the package, named in its module.

Nothing here is imported before it is used: Triton need not be there.
"""
