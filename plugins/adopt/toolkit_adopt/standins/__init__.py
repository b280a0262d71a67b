"""Stand-ins for the modules of TensorFlow 1.x that an adopted script imports and 2.x lacks."""
