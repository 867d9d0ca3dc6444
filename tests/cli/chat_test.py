#!/usr/bin/env python3
"""forge chat at a terminal: editing, history, completion, commands and signals, with a script as
the engine that echoes its prompts.

    python3 tests/cli/chat_test.py build/bin/forge

Without libedit the part that needs it fails and says so: scripts/setup.sh installs it.
"""
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FORGE = str(Path(sys.argv[1]).resolve())
failures = []


def check(name, good, said):
    if not good:
        failures.append(name)
    print(f"{'ok  ' if good else 'FAIL'}  {name}" + ("" if good else f": {said!r}"), flush=True)


def own_terminal() -> None:
    """Makes stdin the child's controlling terminal and restores Ctrl-C.

    A shell in the background ignores interrupts, and its children inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """forge chat on a pseudo-terminal."""

    def __init__(self, folder: Path, *words, **environment):
        self.master, slave = pty.openpty()
        self.slave = slave
        self.before = termios.tcgetattr(slave)
        variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm", "FORGE_ENGINE": str(ROOT / "tests/journeys/fake_engine.py"),
                     "FORGE_TORCH_DIR": str(folder / "torch")} | environment
        self.process = subprocess.Popen([FORGE, "chat", "--model", str(folder / "model"), "--template", "chatml", "--device", "cpu", *words],
                                        stdin=slave, stdout=slave, stderr=slave, env=variables, start_new_session=True,
                                        preexec_fn=own_terminal)
        self.seen = ""

    def wait(self, text: str, seconds: float = 30) -> str:
        """Waits for the text; returns the output up to it, from where the last call ended."""
        deadline = time.monotonic() + seconds
        while text not in self.seen and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
        assert text in self.seen, f"expected {text!r}, got {self.seen!r}"
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def prompt(self, sign: str = "> ") -> None:
        """Waits until a line is edited: libedit shows the sign first and only then changes what
        keys do.
        """
        self.wait(sign)
        deadline = time.monotonic() + 30
        while termios.tcgetattr(self.slave)[3] & termios.ICANON and time.monotonic() < deadline:
            time.sleep(0.01)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def end(self) -> int:
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            while select.select([self.master], [], [], 0.2)[0]:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
            raise AssertionError(f"the chat does not end; last seen: {self.seen[-300:]!r}") from None
        self.echoes = bool(termios.tcgetattr(self.slave)[3] & termios.ECHO) and termios.tcgetattr(self.slave)[3] & termios.ICANON != 0
        os.close(self.master)
        os.close(self.slave)
        return code


def set_up(folder: Path) -> None:
    shutil.copytree(ROOT / "tests/fixtures/tiny-llama", folder / "model")
    (folder / "torch/torch/lib").mkdir(parents=True)
    (folder / "torch/torch/version.py").write_text("__version__ = '2.11.0'\n")
    (folder / "torch/torch/lib/libtorch_cpu.so").touch()


def conversation(folder: Path) -> None:
    terminal = Terminal(folder)
    terminal.prompt()
    terminal.type("helo there\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[Dl\n")  # seven to the left
    said = terminal.wait("assistant")
    check("the line was edited", "hello there" in said, said)
    terminal.prompt()
    terminal.type("\x1b[A again\n")  # the line before, with more text
    check("history comes back with the arrow", "hello there again" in terminal.wait("assistant"), terminal.seen)
    terminal.prompt()
    terminal.type("/undo\n")
    terminal.prompt()
    terminal.type("/sa\t" + str(folder / "kept.jsonl") + "\n")
    check("Tab completes a command", "added to" in terminal.wait("trains on"), terminal.seen)
    terminal.prompt()
    row = json.loads((folder / "kept.jsonl").read_text())
    check("what was taken back is gone", [m["content"] for m in row["messages"] if m["role"] == "user"] == ["hello there"], row)
    terminal.type("/reset\n")
    terminal.prompt()
    terminal.type("/undo\n")
    terminal.wait("there is nothing to take back")
    terminal.prompt()
    terminal.type("two\\\n")
    terminal.prompt("… ")
    terminal.type("línes…x\x7f\x7f\n")  # removes a character, not a byte
    terminal.prompt()
    terminal.type("/rest\n")
    check("a command is corrected", 'did you mean "/reset"' in terminal.wait("/help shows"), terminal.seen)
    terminal.prompt()
    terminal.type("/help\n")
    said = terminal.wait("continues on the next line")
    check("help names all", all(f"/{name}" in said for name in ("reset", "system", "undo", "retry", "save", "quit")), said)
    terminal.prompt()
    terminal.type("/save " + str(folder / "kept.jsonl") + "\n")
    terminal.prompt()
    row = json.loads((folder / "kept.jsonl").read_text().splitlines()[1])
    check("a row of two lines", row["messages"][0]["content"] == "two\nlínes", row)
    terminal.type("\x04")
    check("Ctrl-D ends it", terminal.end() == 0, "")
    check("the terminal is as it was", terminal.echoes, "no echo")


def history(folder: Path) -> None:
    path = folder / ".local/state/forge/chat-history"
    check("the history is kept", path.exists() and "hello there again" in path.read_text().replace("\\040", " "), path.exists() and path.read_text())
    check("and nobody else's", path.stat().st_mode & 0o077 == 0, oct(path.stat().st_mode))
    terminal = Terminal(folder, "--quiet")
    terminal.prompt()
    terminal.type("\x1b[A\n")
    check("the next chat knows it", "/save" in terminal.wait("no answer to save"), terminal.seen)
    terminal.prompt()
    terminal.type("/quit\n")
    check("/quit ends it", terminal.end() == 0, "")
    terminal = Terminal(folder, FORGE_HISTORY="")
    terminal.prompt()
    terminal.type("secret\n")
    terminal.prompt()
    terminal.type("\x04")
    terminal.end()
    check("FORGE_HISTORY= keeps nothing", "secret" not in path.read_text(), path.read_text())


def signals(folder: Path) -> None:
    terminal = Terminal(folder)
    terminal.prompt()
    terminal.type("half a li\x03")
    check("Ctrl-C at the prompt leaves", terminal.end() in (130, -signal.SIGINT), terminal.process.returncode)
    check("and the terminal is as it was", terminal.echoes, "no echo")
    terminal = Terminal(folder, FAKE="slow")
    terminal.prompt()
    terminal.type("one\n")
    time.sleep(1.5)
    terminal.type("\x03")
    terminal.prompt()
    terminal.type("/save " + str(folder / "interrupted.jsonl") + "\n")
    check("Ctrl-C in an answer takes the question back", terminal.wait("no answer to save") and not (folder / "interrupted.jsonl").exists(), "")
    terminal.prompt()
    terminal.type("\x04")
    check("and the chat goes on", terminal.end() == 0, "")


def without_terminal(folder: Path) -> None:
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder / "other"), "FORGE_ENGINE": str(ROOT / "tests/journeys/fake_engine.py"),
                 "FORGE_TORCH_DIR": str(folder / "torch")}
    done = subprocess.run([FORGE, "chat", "--model", str(folder / "model"), "--template", "chatml", "--device", "cpu", "--quiet"], input="one\n/quit\ntwo\n",
                          capture_output=True, text=True, env=variables)
    check("lines of a pipe", done.returncode == 0 and "one" in done.stdout and "two" not in done.stdout and ">" not in done.stderr, done)
    check("leave no history", not (folder / "other").exists(), "")


with tempfile.TemporaryDirectory(prefix="forge-chat-") as name:
    set_up(Path(name))
    for test in (conversation, history, signals, without_terminal):
        try:
            test(Path(name))
        except (AssertionError, OSError, ValueError, subprocess.SubprocessError) as error:
            check(test.__name__, False, str(error))
print(f"{len(failures)} failed")
sys.exit(bool(failures))
