#!/usr/bin/env python3
"""`lapwing tui` on a real terminal: every view, keys, a new size, copying, colours, and words where something cannot be."""
import os
import re
import subprocess
import sys
import tempfile
import time

SOURCE = os.environ["LAPWING_SOURCE_DIR"]
LAPWING = os.path.join(os.environ["LAPWING_BUILD_DIR"], "bin", "lapwing")
sys.path.insert(0, os.path.join(SOURCE, "tests", "lib"))
from terminal import Terminal, small_run  # noqa: E402

VIEWS = {"1": "overview", "2": "timeline", "3": "phases", "4": "tensors", "5": "ranks", "6": "network", "7": "model", "8": "advice",
         "9": "grid", "0": "what-if", "-": "log"}
LABELS = {"overview": "over", "timeline": "time", "phases": "phase", "tensors": "tensor", "ranks": "rank", "network": "net"}


def lines_of(screen):
    return [line.rstrip() for line in screen.rstrip().splitlines()]


def wait_for_lines(terminal, wanted):
    """Until the screen is these lines and no others."""
    end_s = time.monotonic() + 20
    while lines_of(terminal.screen()) != wanted:
        assert time.monotonic() < end_s, "\n".join(["wanted:", *wanted, "is:", *lines_of(terminal.screen())])
        time.sleep(0.05)


def dumped(run, view, width, height, *more):
    done = subprocess.run([LAPWING, "tui", "--dump", view, "--size", f"{width}x{height}", *more, run], capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8"}, timeout=60)
    assert done.returncode in (0, 3) and len(done.stdout.splitlines()) == height, done
    return lines_of(done.stdout)


def test_every_view(run):
    """What the terminal shows is, cell by cell, what --dump prints: nothing is wrapped, shifted or left over, at any size."""
    with Terminal(80, 24) as terminal:
        before = terminal.flags()
        terminal.run(f"clear; {LAPWING} tui {run}")
        terminal.wait("A step takes")
        visited = []
        for key, view in VIEWS.items():
            terminal.keys(key)
            terminal.wait(f"[{key}{LABELS.get(view, view)}]")
            visited.append(key)  # views select what others then show
            wait_for_lines(terminal, dumped(run, "overview", 80, 24, "--keys", " ".join(visited)))
        for width, height in ((120, 40), (40, 8), (200, 60), (10, 2), (30, 5), (81, 25)):
            terminal.resize(width, height)
            wait_for_lines(terminal, dumped(run, "log", width, height))  # which was shown last
        terminal.resize(80, 24)
        for key, view in VIEWS.items():
            terminal.keys(key, "Down", "Up", "Enter", "Escape")
        terminal.keys("F1")
        terminal.wait("Keys that do something here")
        terminal.keys("F1")
        terminal.wait("Keys that do something here", absent=True)
        terminal.keys("?")
        terminal.wait("Keys that do something here")
        terminal.keys("Escape", "1")
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
        assert terminal.flags() == before
    print("every view, sizes, copying, leaving")


UNKNOWN = ["\x1b[99~", "\x1b[1;9R", "\x1b[I", "\x1b[O", "\x1b[?62;22c", "\x1b[27;5;9~", "\x1b[57358u", "\x1bOz", "\x1bO2q", "\x1b]11;rgb:00/00\x1b\\",
           "\x1b]4;q\a", "\x1bP1$r4q\x1b\\", "\x1b_q4\x1b\\"]


def test_unknown_sequences(run):
    """What a terminal sends beyond the keys that are known is not taken for Escape and letters; what is pasted is no keys."""
    with Terminal(80, 24) as terminal:
        terminal.run(f"{LAPWING} tui --view tensors {run}")
        terminal.wait("[4tensor]")
        terminal.keys("Enter")
        terminal.wait("details")
        before = terminal.screen()
        for sequence in UNKNOWN:
            terminal.type(sequence)
            time.sleep(0.2)
            assert terminal.screen() == before, (sequence, terminal.screen())
        terminal.paste("q1\nq")
        time.sleep(0.3)
        assert terminal.screen() == before, terminal.screen()
        terminal.keys("/")
        terminal.paste("gra\nd")
        terminal.wait("/grad_")
        terminal.keys("Escape")
        terminal.wait("Enter details")
        terminal.keys("Escape")  # alone it is a key as before
        terminal.wait("details  (", absent=True)
        terminal.keys("Escape")
        terminal.wait("[1over]")
    print("unknown sequences, pasting")


def test_mouse(run):
    """A click on a rank of the overview shows its timeline, one on a tab that view; --no-mouse asks for no clicks."""
    with Terminal(80, 24) as terminal:
        terminal.run(f"{LAPWING} tui {run}")
        lines = terminal.wait("A step takes").splitlines()
        terminal.click(4, next(y for y, line in enumerate(lines) if re.match(r".\s+0\s", line)))
        terminal.wait("[2time]")
        terminal.click(terminal.screen().splitlines()[1].index("5rank"), 1)
        terminal.wait("[5rank]")
        terminal.keys("q")
        terminal.wait("ready$")
        terminal.run(f"{LAPWING} tui --no-mouse {run}")
        terminal.wait("[5rank]")
        assert terminal.flags() == "1 0 0", terminal.flags()
    print("mouse")


COLOUR = re.compile(r"\033\[(\d+;)*([34][0-7]|9[0-7]|10[0-7]|[34]8;5;\d+)(;\d+)*m")
RICH = re.compile(r"[34]8;5;(1[6-9]|[2-9]\d|\d{3})")


def test_colours(run):
    """As many colours as TERM has, none with NO_COLOR; the text is the same in all of them, and reverse shows what is selected."""
    plain = None
    for environment, has_colour, is_rich in (({}, True, True), ({"TERM": "xterm-256color"}, True, True), ({"TERM": "xterm-16color"}, True, False),
                                             ({"TERM": "xterm"}, True, False), ({"TERM": "vt100"}, False, False), ({"NO_COLOR": "1"}, False, False)):
        if "TERM" in environment and subprocess.run(["infocmp", environment["TERM"]], capture_output=True).returncode:
            print(f"not tried: nothing is known of {environment['TERM']} here")
            continue
        with Terminal(80, 24) as terminal:
            terminal.run("".join(f"export {k}={v}; " for k, v in environment.items()) + f"{LAPWING} tui --view ranks --no-mouse {run}")
            terminal.wait("[5rank]")
            terminal.wait("? help")
            styled = terminal.screen(styles=True)
            assert (COLOUR.search(styled) is not None) == has_colour, (environment, styled)
            assert (RICH.search(styled) is not None) == is_rich, (environment, styled)
            assert has_colour or re.search(r"\033\[(\d+;)*7m", styled), styled
            plain = plain or lines_of(terminal.screen())
            assert lines_of(terminal.screen()) == plain, (environment, terminal.screen())
    with Terminal(80, 24, {"LC_ALL": "C"}) as terminal:
        terminal.run(f"{LAPWING} tui --view ranks {run}")
        terminal.wait("[5rank]")
        assert terminal.wait("? help").isascii()
        wait_for_lines(terminal, dumped(run, "ranks", 80, 24, "--ascii"))
    print("colours")


def test_remembered(run, folder):
    """The view that was shown last is shown first the next time; --view goes before it; where that cannot be, it is said."""
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
    with Terminal(100, 24, {"XDG_CONFIG_HOME": "/proc/nowhere"}) as terminal:
        terminal.run(f"{LAPWING} tui {run}")
        terminal.wait("[1overview]")
        terminal.keys("q")
        terminal.wait("the view is not remembered: /proc/nowhere/lapwing/tui.new: No such file or directory")
    print("remembered")


def test_hidden_lanes_are_remembered(folder):
    """What crossed the network is below the lanes of each rank until `i` hides it, the next time too."""
    run, config = os.path.join(folder, "captured.lapwing"), os.path.join(folder, "lanes")
    subprocess.run([os.path.join(os.environ["LAPWING_BUILD_DIR"], "tests", "tui_write_run"), "captured", run], check=True)
    looks = ("pcap out", "height: share of the column")
    for begin in (0, 1, 0):
        with Terminal(80, 24, {"XDG_CONFIG_HOME": config}) as terminal:
            terminal.run(f"{LAPWING} tui --view timeline {run}")
            assert looks[1 - begin] not in terminal.wait(looks[begin])
            terminal.keys("i")
            assert looks[begin] not in terminal.wait(looks[1 - begin])
            terminal.keys("q")
            terminal.wait("ready$")
        with open(os.path.join(config, "lapwing", "tui")) as file:
            assert file.read() == "view=timeline\n" + ("" if begin else "nic=hidden\n")
    print("hidden lanes")


def test_plain_words(run, folder):
    """What cannot be done is said in a sentence on the last line."""
    with Terminal(100, 24) as terminal:
        terminal.run(f"cd /proc && {LAPWING} tui {run}")
        terminal.wait("A step takes")
        for keys, words in ((["e"], "! cannot write lapwing-overview.txt: No such file or directory"),
                            ([":write /proc/x", "Enter"], "! cannot write /proc/x: No such file or directory"),
                            (["4", "/", "nowhere", "Enter"], "! 'nowhere' is not here"),
                            ([":search nowhere", "Enter"], "! 'nowhere' is not here"),
                            ([":nonsense", "Enter"], "! no command 'nonsense': :help lists them"),
                            (["f"], "! f does nothing here (in timeline)"), (["6", "t", "y"], "! there is nothing to copy"),
                            ([":help", "Enter"], "Keys that do something here")):
            for key in keys:
                terminal.keys("Enter") if key == "Enter" else terminal.type(key)
            terminal.wait(words)
        terminal.keys("q")
        terminal.wait("ready$")
        terminal.run(f"cd {folder} && {LAPWING} tui --view tensors {run}")
        terminal.wait("Tensors:")
        terminal.keys("e")
        terminal.wait("written: lapwing-tensors.csv")
    with open(os.path.join(folder, "lapwing-tensors.csv")) as file:
        first = file.readline()
        assert first.startswith("tensor,bytes,ready_ns,"), first
    print("plain words")


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
    for arguments in (["--dump", "overview", "/nowhere.lapwing"], ["/nowhere.lapwing"], [run, "/nowhere.lapwing"]):
        done = failing({}, *arguments)
        assert done.returncode == 1 and "/nowhere.lapwing" in done.stderr and not done.stdout, done
        assert "needs a terminal" not in done.stderr, done
    with Terminal(100, 24) as terminal:
        terminal.run(f"clear; {LAPWING} tui {SOURCE}/README.md; echo leaves $?")
        screen = terminal.wait("leaves 1")
        assert "README.md" in screen and "[1over" not in screen, screen
    for term, word in (("dumb", "TERM=dumb"), ("no-such-terminal", "nothing is known"), ("", "TERM= says")):
        with Terminal(100, 24) as terminal:
            terminal.run(f"clear; TERM={term} {LAPWING} tui {run}; echo leaves $?")
            assert "leaves 1" in terminal.wait(word) or terminal.wait("leaves 1")
    print("no terminal, bad options")


def test_dumps_follow_the_locale(run):
    def dump(locale, *arguments):
        return subprocess.run([LAPWING, "tui", "--dump", "timeline", *arguments, run], env={**os.environ, "LC_ALL": locale}, capture_output=True,
                              timeout=60).stdout

    assert dump("C").isascii() and dump("C")
    assert not dump("C.UTF-8").isascii()
    assert dump("C", "--utf8") == dump("C.UTF-8")
    assert dump("C.UTF-8", "--ascii") == dump("C")
    print("dumps in any locale")


def main():
    with tempfile.TemporaryDirectory(prefix="lapwing-tui-") as folder:
        run = small_run(folder)
        test_no_terminal(run)
        test_dumps_follow_the_locale(run)
        test_every_view(run)
        test_unknown_sequences(run)
        test_mouse(run)
        test_colours(run)
        test_remembered(run, folder)
        test_hidden_lanes_are_remembered(folder)
        test_plain_words(run, folder)
    return 0


sys.exit(main())
