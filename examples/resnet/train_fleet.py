"""Trains a small ResNet on images, made up or from a directory, by one worker or by several together:

    python -m paddle.distributed.launch train_fleet.py

The launcher learns of the other workers from the environment that Paddle Operator gives each
pod. Every worker holds the whole model and a share of the images; gradients are averaged after
each step, so at the end all have the same parameters. Nothing is downloaded.
"""

import argparse
import glob
import hashlib
import os
import time

import paddle
from paddle import distributed, nn
from paddle.vision.models.resnet import BasicBlock

import stripes


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

    def option(name, kind, default, text):
        default = os.environ.get(name.upper(), default)
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)

    option("epochs", int, 3, "passes over the images (EPOCHS)")
    option("batch_size", int, 64, "images per step, of all workers together (BATCH_SIZE)")
    option("images", int, stripes.COUNT, "images to learn from (IMAGES)")
    option("data", str, "", "a directory of images to learn from instead (DATA)")
    option("checkpoint", str, "", "a directory that all workers share, to go on from (CHECKPOINT)")
    return parser.parse_args()


class Stripes(paddle.io.Dataset):
    """Images that are made up in memory."""

    def __init__(self, count, seed):
        self.images, self.labels = stripes.stripes(count, seed)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class Folder(paddle.io.Dataset):
    """Images in files, in a folder for each class. They are in the order of their paths, which
    is also that of a SampleSet: each node has cached what its worker reads."""

    def __init__(self, root):
        found = glob.glob(os.path.join(root, "*", "*.jpg"))
        self.files = sorted(found, key=os.fsencode)
        if not self.files:
            raise SystemExit(f"there is no image in {root}")
        self.classes = sorted({os.path.dirname(file) for file in self.files})

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        file = self.files[index]
        return stripes.decode(file), self.classes.index(os.path.dirname(file))


def resnet():
    """The ResNet for small images, with one block per stage."""

    def stage(inputs, outputs, stride):
        shortcut = nn.Sequential(
            nn.Conv2D(inputs, outputs, 1, stride=stride, bias_attr=False), nn.BatchNorm2D(outputs)
        )
        return BasicBlock(inputs, outputs, stride, shortcut)

    return nn.Sequential(
        nn.Conv2D(3, 16, 3, padding=1, bias_attr=False),
        nn.BatchNorm2D(16),
        nn.ReLU(),
        stage(16, 16, stride=1),
        stage(16, 32, stride=2),
        stage(32, 64, stride=2),
        nn.AdaptiveAvgPool2D(1),
        nn.Flatten(),
        nn.Linear(64, stripes.CLASSES),
    )


def loader(dataset, args, shuffle):
    """The batches of this worker. Its sampler must be told the epoch to shuffle anew."""
    share = max(1, args.batch_size // distributed.get_world_size())
    # What remains at the end of an epoch may be two images: they would count as much as a batch.
    whole = shuffle and len(dataset) >= args.batch_size
    sampler = paddle.io.DistributedBatchSampler(dataset, share, shuffle=shuffle, drop_last=whole)
    return paddle.io.DataLoader(dataset, batch_sampler=sampler), sampler


def total(number):
    """The sum of what the workers have."""
    number = paddle.to_tensor(float(number))
    if distributed.get_world_size() > 1:
        distributed.all_reduce(number)
    return number.item()


def accuracy(model, images):
    model.eval()
    right, seen = 0, 0
    with paddle.no_grad():
        for batch, labels in images:
            right += (model(batch).argmax(1) == labels).sum().item()
            seen += len(labels)
    model.train()
    return total(right) / total(seen)


def sha256(model):
    """Of what is learnt. Each worker's batch norms know the statistics of its own images."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        if not parameter.stop_gradient:
            digest.update(parameter.numpy().tobytes())
    return digest.hexdigest()


def save(path, epoch, model, optimizer):
    """Replaces the checkpoint at once, so that a kill never leaves half of one."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    paddle.save(state, path + ".new")
    os.replace(path + ".new", path)


def say(line):
    print(line, flush=True)


def main():
    args = options()
    paddle.seed(0)
    distributed.init_parallel_env()
    rank, workers = distributed.get_rank(), distributed.get_world_size()
    say(f"rank={rank} world_size={workers}")

    learns_from = Folder(args.data) if args.data else Stripes(args.images, stripes.SEED)
    images, sampler = loader(learns_from, args, shuffle=True)
    unseen, _ = loader(Stripes(1000, seed=2), args, shuffle=False)
    model = resnet()
    optimizer = paddle.optimizer.Momentum(0.05, parameters=model.parameters(), weight_decay=1e-4)

    done = 0
    checkpoint = os.path.join(args.checkpoint, "resnet.pdparams") if args.checkpoint else None
    if checkpoint and os.path.exists(checkpoint):
        state = paddle.load(checkpoint)
        done = state["epoch"]
        model.set_state_dict(state["model"])
        optimizer.set_state_dict(state["optimizer"])
        say(f"continues after epoch={done}")
    if total(done) != done * workers:
        raise SystemExit(f"workers see different {checkpoint}: mount a volume there that they share")

    parallel = paddle.DataParallel(model)
    for epoch in range(done + 1, args.epochs + 1):
        sampler.set_epoch(epoch)
        started = time.time()
        for step, (batch, labels) in enumerate(images, 1):
            loss = nn.functional.cross_entropy(parallel(batch), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            if step % 10 == 0 or step == len(images):
                speed = step * args.batch_size / (time.time() - started)
                say(f"epoch={epoch} step={step} loss={loss.item():.4f} images/s={speed:.0f}")
        if checkpoint and rank == 0:
            save(checkpoint, epoch, model, optimizer)

    say(f"accuracy={accuracy(model, unseen):.4f}")
    say(f"parameters sha256={sha256(model)}")


if __name__ == "__main__":
    main()
