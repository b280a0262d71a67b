"""Random changes of training images, in the graph, for any plugin.

    from toolkit import augmentation

    class MyOptions(toolkit.AugmentationOptions): ...

    images = augmentation.augment(images, run)                         # as the options say
    images, masks = augmentation.augment_with_masks(images, masks, run)
    images, targets = augmentation.mix_examples(images, targets, run, mixup=0.2, cutmix=1.0)

Images are float32 [N, H, W, C] in [0, 1] of any size, H and W known when the graph is built. Each
example is changed by random numbers of its own, which are a function of (seed, name, global step):
a resumed run, the other reader and several steps per call change a batch in the same way.

apply: everything that the options name, in its order.
geometry: what moves pixels: shift, crop, flip, rotate, zoom, elastic.
colour: brightness, contrast, saturation, hue, grey.
mixing: cutout, mixup and CutMix. rand_augment: RandAugment.
views: test-time augmentation. sheet: a picture of what the options do.
"""

from .apply import augment, augment_with_masks
from .mixing import mix_examples
from .views import check_views, map_views

__all__ = ["augment", "augment_with_masks", "check_views", "map_views", "mix_examples"]
