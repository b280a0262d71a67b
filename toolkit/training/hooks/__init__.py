"""The hooks of a training session, one module each."""
