"""Image files: one file, folders of images, pairs of images."""
