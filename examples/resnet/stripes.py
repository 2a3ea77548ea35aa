"""Noisy coloured stripes; their direction is the class. The same seed gives the same images.

    python stripes.py DIRECTORY

writes those that train_fleet.py learns from as JPEG files, in a folder for each class.
"""

import os
import shutil
import sys

import numpy as np
from PIL import Image

CLASSES = 10
SIZE = 32
# How many there are to learn from, and the seed of these.
COUNT = 2048
SEED = 1
# Grey is 0, and this is so many steps of a pixel.
ONE = 32


def stripes(count, seed):
    """Images with values around 0, and their classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=count)
    angle = (labels * np.pi / CLASSES).reshape(-1, 1, 1)
    phase, width = rng.uniform(0, 2 * np.pi, (count, 1, 1)), rng.uniform(4, 8, (count, 1, 1))
    y, x = np.mgrid[:SIZE, :SIZE]
    wave = np.sin(2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / width + phase)
    images = wave[:, None] * rng.uniform(0.2, 1, (count, 3, 1, 1))
    images += rng.normal(scale=1.0, size=images.shape)
    return images.astype("float32"), labels


def decode(file):
    """The image in a file, with values around 0."""
    with Image.open(file) as image:
        pixels = np.asarray(image, dtype="float32")
    return (pixels.transpose(2, 0, 1) - 128) / ONE


def write(directory):
    images, labels = stripes(COUNT, SEED)
    pixels = np.clip(images * ONE + 128, 0, 255).astype("uint8").transpose(0, 2, 3, 1)
    for label in range(CLASSES):
        os.makedirs(os.path.join(directory, f"class-{label}"))
    # Colours are not blurred, so that they look like those made up in memory.
    for n, (image, label) in enumerate(zip(pixels, labels)):
        file = os.path.join(directory, f"class-{label}", f"{n:04}.jpg")
        Image.fromarray(image).save(file, quality=95, subsampling=0)


def main():
    directory = sys.argv[1]
    if os.path.exists(directory):
        return
    draft = directory + ".new"
    shutil.rmtree(draft, ignore_errors=True)
    write(draft)
    os.rename(draft, directory)
    print(f"made {COUNT} images in {directory}")


if __name__ == "__main__":
    main()
