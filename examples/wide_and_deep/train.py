"""Trains Wide & Deep with parameter servers. Servers and workers run this same program; the
environment that Paddle Operator gives each pod (TRAINING_ROLE and lists of endpoints) tells
them apart.

Sparse embeddings live on the servers, and so does the master copy of the dense parameters.
Each worker learns from its own share of the clicks and sends its gradients whenever it has
some (a_sync). The clicks are made up from a seed: nothing is downloaded.
"""

import argparse
import hashlib
import os
import socket
import sys
import time

# The parameter servers of Paddle 3.0 know only the older form of programs.
os.environ.setdefault("FLAGS_enable_pir_api", "0")

import numpy as np
import paddle
from paddle.distributed import fleet

DENSE = 8  # numbers that describe an impression, such as the age of the user
SLOTS = 6  # categories that describe it, such as the advertiser
IDS = 1000  # values of each category
TABLES = ("wide", "deep")  # of embeddings, on the servers
EMBEDDING = 8


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

    def option(name, kind, default, text):
        default = os.environ.get(name.upper(), default)
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)

    option("epochs", int, 6, "passes over the clicks (EPOCHS)")
    option("batch_size", int, 128, "impressions per step of a worker (BATCH_SIZE)")
    option("samples", int, 80_000, "impressions that the workers share (SAMPLES)")
    option("output", str, "model", "where each server saves its share of the model (OUTPUT)")
    return parser.parse_args()


def write_clicks(path, count, seed):
    """Writes impressions in Paddle's format: for each input its length and its values.

    Whether one is clicked depends on single values (what the wide part learns) and on a product
    of the dense numbers with a category (what only the deep part can learn).
    """
    world = np.random.default_rng(0)  # the same for all workers
    taste = world.normal(size=(SLOTS, IDS))
    leaning = world.normal(size=(IDS, DENSE))

    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(count, DENSE))
    # A few values are common and most are rare, as in real clicks.
    ids = np.minimum(rng.zipf(1.3, size=(count, SLOTS)) - 1, IDS - 1)
    logit = taste[np.arange(SLOTS), ids].sum(1) + (dense * leaning[ids[:, 0]]).sum(1)
    clicked = rng.random(count) < 1 / (1 + np.exp(-2 * logit))

    with open(path, "w") as file:
        for numbers, values, label in zip(dense, ids, clicked):
            columns = [f"{DENSE} " + " ".join(f"{number:.4f}" for number in numbers)]
            # Slots share one table, so each has a range of ids of its own.
            columns += [f"1 {slot * IDS + value}" for slot, value in enumerate(values)]
            columns.append(f"1 {int(label)}")
            print(*columns, file=file)


def wide_and_deep():
    """Builds the network. Returns its inputs and its loss."""
    dense = paddle.static.data("dense", [None, DENSE], "float32")
    slots = [paddle.static.data(f"slot{i}", [None, 1], "int64") for i in range(SLOTS)]
    label = paddle.static.data("label", [None, 1], "int64")

    def embeddings(name, width):
        attr = paddle.ParamAttr(name=name, initializer=paddle.nn.initializer.Uniform(-0.01, 0.01))
        size = [SLOTS * IDS, width]
        found = [paddle.static.nn.sparse_embedding(slot, size, param_attr=attr) for slot in slots]
        return [paddle.reshape(one, [-1, width]) for one in found]

    wide = paddle.add_n(embeddings("wide", 1)) + paddle.static.nn.fc(dense, 1)
    deep = paddle.concat([dense, *embeddings("deep", EMBEDDING)], axis=1)
    for width in (64, 32):
        deep = paddle.static.nn.fc(deep, width, activation="relu")
    logit = wide + paddle.static.nn.fc(deep, 1)

    loss = paddle.nn.functional.binary_cross_entropy_with_logits(
        logit, paddle.cast(label, "float32")
    )
    # train_from_dataset returns nothing, so the graph itself adds up losses and steps.
    total = paddle.static.create_global_var([2], 0.0, "float32", persistable=True, name="total")
    paddle.assign(total + paddle.concat([paddle.reshape(loss, [1]), paddle.ones([1])]), total)
    return [dense, *slots, label], loss


def wait_for_servers(patience=300):
    """Returns when every server listens: Paddle crashes when one does not."""
    deadline = time.monotonic() + patience
    for endpoint in fleet.server_endpoints():
        host, port = endpoint.rsplit(":", 1)
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise SystemExit(f"server {endpoint}: {error}") from error
                time.sleep(0.2)


def dense_sha256(program):
    """The same on all workers that hold the same dense parameters."""
    scope = paddle.static.global_scope()
    digest = hashlib.sha256()
    for parameter in program.all_parameters():
        if parameter.name not in TABLES:
            digest.update(np.array(scope.find_var(parameter.name).get_tensor()).tobytes())
    return digest.hexdigest()


def main():
    args = options()
    # Paddle's own chatter goes to a file, so that the log can be read.
    log, sys.stdout = sys.stdout, open("paddle.log", "a")

    def say(line):
        print(line, file=log, flush=True)

    paddle.enable_static()
    paddle.seed(0)
    fleet.init()

    inputs, loss = wide_and_deep()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    # A file each when saved; 1,000 unless told.
    strategy.sparse_table_configs = {
        table: {f"table_parameters.{table}.shard_num": 4} for table in TABLES
    }
    fleet.distributed_optimizer(paddle.optimizer.Adam(2e-3), strategy).minimize(loss)
    program = paddle.static.default_main_program()

    if fleet.is_server():
        say(f"role=server rank={fleet.server_index()} servers={fleet.server_num()}")
        fleet.init_server()
        fleet.run_server()
        return

    rank, workers = fleet.worker_index(), fleet.worker_num()
    say(f"role=worker rank={rank} world_size={workers} servers={fleet.server_num()}")
    clicks = f"clicks-{rank}.txt"
    write_clicks(clicks, args.samples // workers, seed=1 + rank)

    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    wait_for_servers()
    fleet.init_worker()

    dataset = paddle.distributed.QueueDataset()
    dataset.init(batch_size=args.batch_size, thread_num=1, pipe_command="cat", use_var=inputs)
    dataset.set_filelist([clicks])
    sums = paddle.static.global_scope().find_var("total").get_tensor()
    for epoch in range(1, args.epochs + 1):
        started = time.time()
        sums.set(np.zeros(2, "float32"), paddle.CPUPlace())
        executor.train_from_dataset(program, dataset)
        loss_sum, steps = np.array(sums)
        speed = args.samples // workers / (time.time() - started)
        say(f"epoch={epoch} steps={steps:.0f} loss={loss_sum / steps:.4f} samples/s={speed:.0f}")

    # Workers are not in step, so theirs differ by the latest gradients of the others.
    say(f"parameters sha256={dense_sha256(program)}")
    fleet.save_persistables(executor, args.output)  # by the first worker, when all are here
    if fleet.is_first_worker():
        say(f"saved={args.output} servers={fleet.server_num()}")
    fleet.stop_worker()


if __name__ == "__main__":
    main()
