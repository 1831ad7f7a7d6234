#!/usr/bin/env python3
"""`lapwing tui` on a real terminal: every view, keys, a new size, copying, and the terminal given back whatever happens."""
import os
import re
import signal
import subprocess
import sys
import tempfile

SOURCE = os.environ["LAPWING_SOURCE_DIR"]
LAPWING = os.path.join(os.environ["LAPWING_BUILD_DIR"], "bin", "lapwing")
sys.path.insert(0, os.path.join(SOURCE, "tests", "lib"))
from terminal import Terminal  # noqa: E402

VIEWS = {"1": "over", "2": "time", "3": "phase", "4": "tensor", "5": "rank", "6": "net", "7": "model", "8": "advice", "9": "grid",
         "0": "what-if", "-": "log"}


def test_every_view(run):
    with Terminal(80, 24) as terminal:
        before = terminal.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").strip()
        terminal.run(f"clear; {LAPWING} tui {run}")
        terminal.wait("A step takes")
        for key, label in VIEWS.items():
            terminal.keys(key)
            screen = terminal.wait(f"[{key}{label}]")
            assert all(len(line) <= 80 for line in screen.splitlines()), screen
            terminal.keys("Down", "Up", "Enter", "Escape")
        terminal.keys("?")
        terminal.wait("Keys")
        terminal.keys("Escape", "1")
        terminal.wait("[1over]")
        terminal.resize(120, 40)
        terminal.wait("[1overview]")
        terminal.resize(30, 5)
        terminal.wait("too small")
        terminal.resize(80, 24)
        terminal.wait("[1over]")
        terminal.keys("y")
        terminal.wait("copied")
        assert terminal.tmux("show-buffer").strip(), "nothing arrived by OSC 52"
        terminal.type("4t")  # in one go: nothing is lost between two pictures
        terminal.wait("[4tensor]")
        assert "Tensors:" not in terminal.screen(), terminal.screen()
        terminal.type(":view log")
        terminal.keys("Enter")
        terminal.wait("[-log]")
        terminal.keys("q")
        terminal.wait("ready$")
        assert terminal.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").strip() == before
    print("every view, sizes, copying, leaving")


def test_given_back(run):
    """After a crash and after being ended the terminal echoes, shows its cursor and its own screen."""
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM, signal.SIGHUP):
        with Terminal(80, 24) as terminal:
            terminal.run(f"ulimit -c 0; {LAPWING} tui {run}")
            terminal.wait("A step takes")
            os.kill(terminal.pid_of("lapwing"), number)
            terminal.wait("A step takes", absent=True)
            terminal.run("stty -a | grep -o ' echo ' && echo st''ill works")
            screen = terminal.wait("still works")
            assert "echo" in screen, screen
            assert terminal.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}").strip() == "0 1 0"
        print(f"given back after {number.name}")


def test_colours(run):
    """NO_COLOR is honoured; colours are there without it, and as many as TERM says."""
    for environment, wanted in (({"NO_COLOR": "1"}, False), ({}, True), ({"TERM": "xterm"}, True)):
        with Terminal(80, 24) as terminal:
            terminal.run("".join(f"export {k}={v}; " for k, v in environment.items()) + f"{LAPWING} tui {run}")
            terminal.wait("A step takes")
            screen = terminal.screen(styles=True)
            has = re.search(r"\033\[(\d+;)*([34][1-7]|[34]8;5;\d+)m", screen) is not None
            assert has == wanted, (environment, screen[:600])
    print("colours")


def test_remembered(run, folder):
    """The view that was shown last is shown first the next time; --view goes before it."""
    config = os.path.join(folder, "config")
    for begin, wanted in (("", "[1over]"), ("", "[5rank]"), ("--view grid", "[9grid]")):
        with Terminal(80, 24, {"XDG_CONFIG_HOME": config}) as terminal:
            terminal.run(f"{LAPWING} tui {begin} {run}")
            terminal.wait(wanted)
            terminal.keys("5")
            terminal.wait("[5rank]")
            terminal.keys("q")
            terminal.wait("ready$")
    with open(os.path.join(config, "lapwing", "tui")) as file:
        assert file.read() == "view=ranks\n"
    print("remembered")


def test_no_terminal(run):
    def failing(environment, *arguments, stdin=subprocess.DEVNULL):
        return subprocess.run([LAPWING, "tui", *arguments], env={**os.environ, **environment}, stdin=stdin, capture_output=True,
                              text=True, timeout=60)

    done = failing({}, run)
    assert done.returncode == 1 and "needs a terminal" in done.stderr and done.stderr.count("\n") == 1, done
    for arguments in (["--dump", "nothing", run], ["--size", "80", run], ["--dump", "overview", "--size", "0x3", run], []):
        done = failing({}, *arguments)
        assert done.returncode == 2, done
    done = failing({}, "--dump", "overview", "--keys", "<Nowhere>", run)
    assert done.returncode == 2 and "no key" in done.stderr, done
    done = failing({}, "--dump", "overview", "/nowhere.lapwing")
    assert done.returncode == 1 and "/nowhere.lapwing" in done.stderr and not done.stdout, done
    for term, word in (("dumb", "TERM=dumb"), ("no-such-terminal", "nothing is known")):
        with Terminal(100, 24) as terminal:
            terminal.run(f"clear; TERM={term} {LAPWING} tui {run}")
            terminal.wait(word)
    done = failing({}, "--dump", "overview", "--size", "120x40", run)
    assert done.returncode in (0, 3) and len(done.stdout.splitlines()) == 40, done
    print("no terminal, bad options")


def main():
    with tempfile.TemporaryDirectory(prefix="lapwing-tui-") as folder:
        run = os.path.join(folder, "run.lapwing")
        done = subprocess.run([LAPWING, "import", os.path.join(SOURCE, "tests/data/timeline_small.json"), "-o", run],
                              capture_output=True, text=True)
        assert done.returncode in (0, 3), done
        test_no_terminal(run)
        test_every_view(run)
        test_given_back(run)
        test_colours(run)
        test_remembered(run, folder)
    return 0


sys.exit(main())
