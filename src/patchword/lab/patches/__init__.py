"""What models of images attend to: the images to start with, and the arrays of one image."""
