"""`selfsurf bench learn`: comparison of training methods on the same episodes, by learning and forgetting."""
