"""Reads images with Paddle's data loader, as often as it is asked.

Each line of the input is a JSON object: dir, readers (processes), decode, and forget, the
directories of whose files the kernel is to keep nothing in memory before. Each line of the output is
the time in seconds.
"""

import io
import json
import os
import sys
import time

import numpy as np
from paddle.io import DataLoader, Dataset
from PIL import Image


MEAN = np.array([0.485, 0.456, 0.406], dtype="float32").reshape(3, 1, 1)
DEVIATION = np.array([0.229, 0.224, 0.225], dtype="float32").reshape(3, 1, 1)


def files(directory):
    found = [os.path.join(at, n) for at, _, names in os.walk(directory) for n in names]
    return sorted(found, key=os.fsencode)


def forget(directories):
    # Only what is on disk can be forgotten.
    os.sync()
    for name in (name for directory in directories for name in files(directory)):
        with open(name, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Images(Dataset):
    def __init__(self, job):
        self.files, self.job = files(job["dir"]), job

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with open(self.files[index], "rb") as file:
            data = file.read()
        if not self.job["decode"]:
            return len(data)
        # As trainings on ImageNet have it.
        image = Image.open(io.BytesIO(data)).convert("RGB").resize((224, 224))
        return (np.asarray(image, dtype="float32").transpose(2, 0, 1) / 255 - MEAN) / DEVIATION


def make(directory, count):
    """Images of the size of ImageNet's, about 100 KB; the same each time."""
    rng = np.random.default_rng(0)
    for n in range(count):
        folder = os.path.join(directory, f"class-{n % 10}")
        os.makedirs(folder, exist_ok=True)
        rough = Image.fromarray(rng.integers(0, 255, (47, 63, 3), dtype="uint8"))
        image = np.asarray(rough.resize((500, 375), Image.BICUBIC), dtype="int16")
        image = np.clip(image + rng.integers(-12, 12, image.shape), 0, 255).astype("uint8")
        Image.fromarray(image).save(os.path.join(folder, f"{n:06}.jpg"), quality=90)


def main():
    make(sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        forget(job["forget"])
        images = Images(job)
        loader = DataLoader(images, batch_size=32, num_workers=job["readers"])
        begin = time.perf_counter()
        for _ in loader:
            pass
        print(time.perf_counter() - begin, flush=True)


main()
