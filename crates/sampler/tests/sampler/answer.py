"""Answers by the real Paddle: a line for each line of standard input.

sampler FILES REPLICAS RANK BATCH_SIZE EPOCH SHUFFLE DROP_LAST -> indices
folder ROOT, image ROOT -> names from the root, in hexadecimal
"""

import os
import sys

from paddle.io import DistributedBatchSampler
from paddle.vision.datasets import DatasetFolder, ImageFolder


def indices(files, replicas, rank, batch_size, epoch, shuffle, drop_last):
    sampler = DistributedBatchSampler(
        range(files), batch_size, replicas, rank, bool(shuffle), bool(drop_last)
    )
    sampler.set_epoch(epoch)
    return [str(index) for batch in sampler for index in batch]


def names(files, root):
    return [os.fsencode(os.path.relpath(file, root)).hex() for file in files]


for line in sys.stdin:
    kind, *rest = line.split()
    if kind == "sampler":
        answer = indices(*map(int, rest))
    else:
        root = os.fsdecode(bytes.fromhex(rest[0]))
        if kind == "folder":
            answer = names([file for file, _ in DatasetFolder(root).samples], root)
        else:
            answer = names(ImageFolder(root).samples, root)
    print(" ".join(answer))
