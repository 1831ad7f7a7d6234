#!/usr/bin/env python3
"""The terminal is given back as it was: after leaving, after a crash, after being ended, while stopped."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

SOURCE = os.environ["LAPWING_SOURCE_DIR"]
LAPWING = os.path.join(os.environ["LAPWING_BUILD_DIR"], "bin", "lapwing")
sys.path.insert(0, os.path.join(SOURCE, "tests", "lib"))
from terminal import Terminal, small_run  # noqa: E402

SIGNALS = [signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
# Of xterm: own screen off, cursor on, no mouse, no marks around what is pasted.
WANTED = [rb"\033\[\?1049l", rb"\033\[\?25h", rb"\033\[\?(1006;)?1000l", rb"\033\[\?2004l"]


class Pty:
    """A terminal without a shell, which would set it right by itself."""

    def __init__(self, *command):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        self.child = subprocess.Popen(command, stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
                                      env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": "/proc/nowhere"})

    def read(self, timeout_s):
        if select.select([self.master], [], [], timeout_s)[0]:
            self.output += os.read(self.master, 65536)
            return True
        return False

    def wait(self, text, timeout_s=20):
        end_s = time.monotonic() + timeout_s
        while text not in self.output:
            assert time.monotonic() < end_s, (text, self.output[-500:])
            self.read(0.1)

    def end(self):
        """Return: exit status, what was written since the last look, and whether the terminal's modes are those of before."""
        while self.child.poll() is None:
            self.read(0.05)
        while self.read(0.05):
            pass
        is_as_before = termios.tcgetattr(self.slave) == self.before
        os.close(self.slave)
        os.close(self.master)
        return self.child.returncode, self.output, is_as_before


def test_ends(run):
    for number in (None, *SIGNALS):
        terminal = Pty("bash", "-c", f"ulimit -c 0; exec {LAPWING} tui {run}")
        terminal.wait(b"A step takes")
        terminal.wait(b"q leave")
        assert termios.tcgetattr(terminal.slave) != terminal.before
        terminal.output = b""
        if number:
            os.kill(terminal.child.pid, number)
        else:
            os.write(terminal.master, b"q")
        status, output, is_as_before = terminal.end()
        assert status in ([-number] if number else [0, 3]), (number, status)
        assert is_as_before, f"{number}: the terminal does not echo as before"
        for text in WANTED:
            assert re.search(text, output), (number, text, output)
        print(f"given back after {number.name if number else 'leaving'}")


def test_goes_away(run):
    """A terminal that is closed, of a program that it does not control: no signal comes, and nobody could read or type."""
    terminal = Pty(LAPWING, "tui", run)
    terminal.wait(b"q leave")
    os.close(terminal.slave)
    os.close(terminal.master)
    assert terminal.child.wait(20) == -signal.SIGHUP
    print("ends with its terminal")


def test_shows_its_screen(run):
    """The same as tmux sees it."""
    for number in (signal.SIGSEGV, signal.SIGTERM):
        with Terminal(80, 24) as terminal:
            terminal.run(f"ulimit -c 0; {LAPWING} tui {run}")
            terminal.wait("A step takes")
            assert terminal.flags() == "1 0 1", terminal.flags()
            os.kill(terminal.pid_of("lapwing"), number)
            terminal.wait("A step takes", absent=True)
            terminal.run("echo st''ill works")
            terminal.wait("still works")
            assert terminal.flags() == "0 1 0", terminal.flags()


def test_stops(run):
    """Ctrl-Z gives the terminal to the shell, fg shows the screen again, and keys work."""
    with Terminal(80, 24) as terminal:
        terminal.run(f"{LAPWING} tui {run}")
        terminal.wait("A step takes")
        for _ in range(2):
            terminal.keys("C-z")
            terminal.wait("Stopped")
            assert terminal.flags() == "0 1 0", terminal.flags()
            terminal.run("clear; stty -a | grep -ow icanon; fg")
            terminal.wait("A step takes")
            assert terminal.flags() == "1 0 1", terminal.flags()
        terminal.resize(120, 30)
        terminal.keys("5")
        terminal.wait("[5ranks]")
        terminal.keys("q")
        terminal.wait("ready$")
        assert terminal.flags() == "0 1 0", terminal.flags()
    print("stopped, and back")


def main():
    with tempfile.TemporaryDirectory(prefix="lapwing-tui-") as folder:
        run = small_run(folder)
        test_ends(run)
        test_goes_away(run)
        test_shows_its_screen(run)
        test_stops(run)
    return 0


sys.exit(main())
