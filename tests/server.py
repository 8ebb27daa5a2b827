"""A `maru serve` for tests: started on a pool and a socket of its own, ended by its own pid."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile


# A server that does without upstream's protocols, so that tests do not meet at their ports.
UNIX_ONLY = ("--listen", "none", "--rm-listen", "none")


def ended(*command):
    """A program that is expected to end at once. One that listens is stopped: exit code 0."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("listening on "):
            process.terminate()
    error = process.communicate()[1]
    return subprocess.CompletedProcess(command, process.returncode, None, error)


class Server:
    """Runs until stop() or kill(); start() brings it back on the same pool.

    It serves upstream's protocols where `listen` and `rm_listen` say; after start(), `metadata` and
    `resource_manager` are where it does, or None."""

    def __init__(self, maru, size="64MiB", options=(), listen="none", rm_listen="none"):
        self.maru = str(maru)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="maru-test-"))
        shm = pathlib.Path("/dev/shm")
        self.pool = shm / f"{self.folder.name}.pool"
        self.key = shm / f"{self.pool.name}.key"
        self.rm_port = shm / f"{self.pool.name}.rm-port"
        self.socket = self.folder / "maru.sock"
        self.size = size
        self.options = ["--listen", listen, "--rm-listen", rm_listen, *options]
        self.process = None
        self.said = []  # the lines of the last start, up to "listening on"

    def command(self, *words):
        return [self.maru, *(w if isinstance(w, bytes) else str(w) for w in words)]

    def start(self, *extra, log=None):
        """Waits until it says that it listens. Raises with what it said otherwise. `log` is a
        descriptor for its standard error instead of the file that logged() reads."""
        self.log = open(self.folder / "server.log", "ab")
        self.process = subprocess.Popen(
            self.command("serve", "--pool", f"file:{self.pool},size={self.size}", "--socket",
                         self.socket, *self.options, *extra),
            stdout=subprocess.PIPE, stderr=self.log if log is None else log, text=True)
        self.said = []
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if line.startswith("listening on "):
                self.metadata = self.told("upstream's metadata protocol at ")
                self.resource_manager = self.told("upstream's resource-manager protocol at ")
                return self
        code = self.process.wait()
        self.close()
        raise RuntimeError(f"no server: exit {code}: {self.logged()}")

    def told(self, start):
        """The rest of the line that it began so."""
        return next((line.removeprefix(start) for line in self.said if line.startswith(start)),
                    None)

    def close(self):
        self.process.stdout.close()
        self.log.close()
        self.process = None

    def logged(self):
        return (self.folder / "server.log").read_text()

    def end(self, number):
        self.process.send_signal(number)
        code = self.process.wait()
        self.close()
        return code

    def stop(self):
        return self.end(signal.SIGTERM)

    def kill(self):
        return self.end(signal.SIGKILL)

    @contextlib.contextmanager
    def standing_still(self):
        """Stopped meanwhile, with all its threads."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def run(self, *words, data=None, env=None):
        """One command of the client's side; the finished process."""
        command = self.command(words[0], "--server", self.socket, *words[1:])
        return subprocess.run(command, input=data, capture_output=True,
                              env={**os.environ, **(env or {})})

    def fill(self, data):
        """Stores until no page is left, which --eviction none lets happen. How many there were."""
        stored = 0
        while self.run("put", f"filler {stored}", "-", data=data).returncode == 0:
            stored += 1
        return stored

    @contextlib.contextmanager
    def waiting_instance(self):
        """A client that has attached, has taken a page, and waits for another instance of its
        replay until it is killed."""
        trace = self.folder / "waiting.jsonl"
        trace.write_text('{"hash_ids": [1]}\n')
        process = subprocess.Popen(
            self.command("replay-instance", "--server", self.socket, "--trace", trace,
                         "--instances", "2", "--races", "1"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            said = process.stdout.readline()
            if said != b"ready\n":
                raise AssertionError(f"{said}")
            yield
        finally:
            process.kill()
            process.communicate()

    def json(self, *words):
        """A command with --json; its exit code must be 0."""
        done = self.run(words[0], "--json", *words[1:])
        if done.returncode != 0:
            raise AssertionError(f"{words}: exit {done.returncode}: {done.stderr.decode()}")
        return json.loads(done.stdout)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process is not None:
            self.stop()
        self.pool.unlink(missing_ok=True)
        self.key.unlink(missing_ok=True)
        self.rm_port.unlink(missing_ok=True)
        for name in self.folder.iterdir():
            name.unlink()
        self.folder.rmdir()
