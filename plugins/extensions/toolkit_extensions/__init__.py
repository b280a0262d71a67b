"""Extensions for any model plugin: `toolkit run --plugin NAME --with EXTENSION`.

ema: evaluate and export with a moving average of the weights.
swa: evaluate and export with the mean of the weights at the end of the training.
label_smoothing: train on labels a share of which is spread over all classes.
gradient_noise: add noise that decreases to the gradients.
lr_finder: raise the learning rate until the loss diverges, and propose one.
profiler: measure what a step spends its time and memory on.

Each is one to three modules, and imports TensorFlow only where it is used.
"""
