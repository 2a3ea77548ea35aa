#!/usr/bin/env python3
"""Runs the examples without any operator. Needs what examples/install.sh installs.

Pods are processes here, each at a loopback address of its own, with the environment that the
operator would give them. nginx gets a network and file tree of its own.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
CACHE = Path(
    os.environ.get("PADDLE_OPERATOR_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paddle-operator"
).absolute()
PATIENCE = 120  # seconds for a whole job, on a busy machine


def free_port():
    """A port that is free on every address, and so is the one of gloo, 18 above."""
    while True:
        with socket.socket() as first, socket.socket() as gloo:
            first.bind(("", 0))
            port = first.getsockname()[1]
            try:
                gloo.bind(("", port + 18))
                return port
            except (OSError, OverflowError):
                continue


class Pod:
    """A process in a directory of its own, with its output in a file."""

    def __init__(self, directory, command, environment):
        directory.mkdir()
        self.directory = directory
        self.log = directory.with_suffix(".log")
        with self.log.open("w") as log:
            # With a session of its own, so that its children can be ended with it.
            self.process = subprocess.Popen(
                [str(part) for part in command],
                cwd=directory,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self):
        return self.log.read_text()

    def values(self, key):
        """What the lines say of a key, in order."""
        return re.findall(rf"\b{re.escape(key)}=(\S+)", self.output())

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class ExampleTest(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="examples-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.pods = []
        # Runs first: what was added last does.
        self.addCleanup(lambda: [pod.kill() for pod in self.pods])
        self.deadline = time.monotonic() + PATIENCE

    def start(self, name, command, environment):
        pod = Pod(self.directory / f"{len(self.pods)}-{name}", command, environment)
        self.pods.append(pod)
        return pod

    def job(self, servers, workers, command, environment):
        """Starts the pods of a job. Returns its servers and its workers."""
        port = free_port()
        hosts = [f"127.0.0.{number + 1}" for number in range(servers + workers)]
        endpoints = [f"{host}:{port}" for host in hosts]
        shared = {
            **environment,
            "OMP_NUM_THREADS": "1",
            "PADDLE_PORT": str(port),
            "TRAINER_PORTS_NUM": "20",
            "PADDLE_JOB_ID": "test",
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints[servers:]),
            "PADDLE_TRAINERS": ",".join(hosts[servers:]),
            "PADDLE_TRAINERS_NUM": str(workers),
        }
        if servers:
            shared |= {
                "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(endpoints[:servers]),
                "PADDLE_WITH_GLOO": "1",
                "PADDLE_GLOO_RENDEZVOUS": "3",
                "PADDLE_GLOO_HTTP_ENDPOINT": f"{hosts[0]}:{port + 18}",
            }
        pods = []
        for number, host in enumerate(hosts):
            is_server = number < servers
            role, rank = ("PSERVER", number) if is_server else ("TRAINER", number - servers)
            own = {
                "POD_IP": host,
                "PADDLE_TRAINER_ID": str(rank),
                "TRAINING_ROLE": role,
                "PADDLE_TRAINING_ROLE": role,
                "PADDLE_CURRENT_ENDPOINT": f"{host}:{port}",
            }
            pods.append(self.start(f"{role.lower()}-{rank}", command, shared | own))
        return pods[:servers], pods[servers:]

    def finish(self, pods):
        """Waits until all have ended well, or one has not."""
        while any(pod.process.poll() is None for pod in pods):
            self.assertLess(time.monotonic(), self.deadline, self.logs("the job takes too long"))
            if any(pod.process.poll() for pod in self.pods):
                break
            time.sleep(0.1)
        codes = {pod.directory.name: pod.process.poll() for pod in pods}
        self.assertEqual(set(codes.values()), {0}, self.logs(f"exit codes: {codes}"))

    def logs(self, title):
        return title + "".join(f"\n--- {pod.directory.name}\n{pod.output()}" for pod in self.pods)

    def assert_falls(self, pod, key, to):
        values = [float(value) for value in pod.values(key)]
        self.assertGreater(len(values), 1, self.logs(f"{key} is missing"))
        self.assertLess(values[-1], values[0] * to, self.logs(f"{key} does not fall"))


class Resnet(ExampleTest):
    def workers(self, count, **environment):
        python = CACHE / "paddle-3.3.1/bin/python"
        command = [python, "-m", "paddle.distributed.launch", EXAMPLES / "resnet/train_fleet.py"]
        environment |= {"PADDLE_DISTRI_BACKEND": "gloo", "IMAGES": "1024"}
        _, workers = self.job(0, count, command, environment)
        self.finish(workers)
        return workers

    def test_two_workers_train_one_model_and_one_goes_on_with_it(self):
        checkpoint = str(self.directory / "checkpoint")
        pair = self.workers(2, EPOCHS="2", CHECKPOINT=checkpoint)
        self.assertEqual([worker.values("rank") for worker in pair], [["0"], ["1"]])
        for worker in pair:
            self.assertEqual(worker.values("world_size"), ["2"])
            self.assert_falls(worker, "loss", to=0.7)
        first, second = (worker.values("sha256") for worker in pair)
        self.assertEqual(len(first), 1)
        self.assertEqual(first, second, "they have trained two models")

        (alone,) = self.workers(1, EPOCHS="3", CHECKPOINT=checkpoint)
        self.assertEqual(alone.values("world_size"), ["1"])
        self.assertIn("continues after epoch=2\n", alone.output())
        self.assertEqual(set(alone.values("epoch")), {"2", "3"})
        self.assertLess(float(alone.values("loss")[-1]), float(pair[0].values("loss")[-1]))
        self.assertNotEqual(alone.values("sha256"), first)


class WideAndDeep(ExampleTest):
    def test_two_workers_train_with_two_servers(self):
        command = [CACHE / "paddle-3.0.0/bin/python", EXAMPLES / "wide_and_deep/train.py"]
        environment = {"GLOG_minloglevel": "2", "EPOCHS": "4", "SAMPLES": "40000"}
        servers, workers = self.job(2, 2, command, environment)
        self.finish(workers)
        for rank, worker in enumerate(workers):
            self.assertEqual(worker.values("role"), ["worker"])
            self.assertEqual(worker.values("rank"), [str(rank)])
            self.assertEqual(worker.values("world_size"), ["2"])
            self.assertEqual(len(worker.values("sha256")), 1)
            self.assert_falls(worker, "loss", to=0.8)
        self.assertEqual(workers[0].values("saved"), ["model"])
        for rank, server in enumerate(servers):
            self.assertEqual(server.values("role"), ["server"])
            self.assertEqual(server.values("rank"), [str(rank)])
            self.assertIsNone(server.process.poll(), "servers are ended from outside")
            saved = list(server.directory.glob("model/*/part-*"))
            self.assertTrue(saved, f"server {rank} has no share of the model")


class Nginx(ExampleTest):
    # /opt/nginx as in images.yaml; the machine need not have it.
    ISOLATED = """
        set -e
        ip link set lo up
        mount -t tmpfs none /opt
        mkdir /opt/nginx
        cp "$EXAMPLES/nginx/nginx.conf" /opt
        mount --bind "$CACHE/nginx" /opt/nginx
        mount -t tmpfs none /tmp
        exec nginx -c /opt/nginx.conf -g 'daemon off;'
    """

    def test_serves_its_page_and_logs_to_stdout(self):
        unshare = ["unshare", "--user", "--map-root-user", "--mount", "--net"]
        if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("user namespaces are not allowed here")
        environment = {
            "PATH": "/opt/nginx/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LD_LIBRARY_PATH": "/opt/nginx/lib",
            "CACHE": str(CACHE),
            "EXAMPLES": str(EXAMPLES),
        }
        pod = self.start("nginx", [*unshare, "sh", "-c", self.ISOLATED], environment)
        while "start worker process" not in pod.output():
            self.assertIsNone(pod.process.poll(), self.logs("nginx has ended"))
            self.assertLess(time.monotonic(), self.deadline, self.logs("nginx does not start"))
            time.sleep(0.1)
        # Into its network, which nothing else reaches.
        enter = ["nsenter", "--user", "--preserve-credentials", "--net", "--target"]
        get = "import urllib.request as r; print(r.urlopen('http://127.0.0.1').read().decode())"
        page = subprocess.check_output(
            [*enter, str(pod.process.pid), sys.executable, "-c", get], text=True
        )
        self.assertIn("Welcome to nginx!", page)
        pod.process.send_signal(signal.SIGQUIT)
        self.finish([pod])
        self.assertRegex(pod.output(), r'127\.0\.0\.1 - - .*"GET / HTTP/1\.1" 200')


if __name__ == "__main__":
    unittest.main(verbosity=2)
