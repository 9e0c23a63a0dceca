"""Read and overwrite the activations of a forward pass: capture, and the patch grid."""
