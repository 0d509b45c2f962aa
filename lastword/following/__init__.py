"""Services that follow a topic with faust, and keep their own checkpoints."""
