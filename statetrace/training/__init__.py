"""From a recipe to a trained model: objectives, training loop, checkpoints."""
