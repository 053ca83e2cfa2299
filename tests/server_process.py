"""`grille serve` as a child process, and the few bytes of HTTP that no client library would send."""
import contextlib
import json
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from conftest import GRILLE

START_SECONDS = 120


class Server:
    """Started with any options of `grille serve`; it listens on a free port of 127.0.0.1."""

    def __init__(self, model: Path, *options: object):
        self.process = subprocess.Popen([str(GRILLE), "serve", str(model), "--port", "0", *map(str, options)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        line = self.process.stdout.readline()
        match = re.fullmatch(r"serving (.+) at (http://127\.0\.0\.1:(\d+))\n", line)
        if match is None:
            self._reader.join(10)
            raise AssertionError(f"no server: {line!r}, {self.log[-3:]}")
        self.name, self.url, self.port = match[1], match[2], int(match[3])

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    def stop(self, number: int = signal.SIGTERM, timeout: float = 40) -> int:
        """Sends the signal; returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self._reader.join(10)
        return status

    @contextlib.contextmanager
    def halted(self):
        """Inside, the server does not run: it accepts bytes and answers none."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def metrics(self) -> dict[str, float]:
        """Sums over labels."""
        values: dict[str, float] = {}
        with urllib.request.urlopen(self.url + "/metrics") as response:
            for line in response.read().decode().splitlines():
                if not line.startswith("#"):
                    name, value = line.rsplit(" ", 1)
                    name = name.split("{")[0]
                    values[name] = values.get(name, 0) + float(value)
        return values

    def live(self) -> float:
        metrics = self.metrics()
        return metrics["vllm:num_requests_running"] + metrics["vllm:num_requests_waiting"]

    def wait_until_idle(self, seconds: float = 20) -> bool:
        deadline = time.monotonic() + seconds
        while self.live() > 0:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def rss_bytes(self) -> int:
        fields = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", fields)[1]) * 1024

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def post(self, path: str, body: object, headers: dict | None = None) -> tuple[int, bytes]:
        """Status and body; any status is an answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@contextlib.contextmanager
def serving(model: Path, *options: object):
    server = Server(model, *options)
    try:
        yield server
    finally:
        server.stop()
