"""The candidate algorithms as programs, the signatures they predict, and the verdict."""
