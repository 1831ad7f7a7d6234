"""A real terminal for tests: tmux, a server of its own, one window. What is on the screen, keys, a new size."""
import os
import shutil
import subprocess
import tempfile
import time



def small_run(folder):
    """A run to show on screens, made of a recorded timeline. Return: its path."""
    run = os.path.join(folder, "run.lapwing")
    source = os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests/data/timeline_small.json")
    done = subprocess.run([os.path.join(os.environ["LAPWING_BUILD_DIR"], "bin", "lapwing"), "import", source, "-o", run], capture_output=True, text=True)
    assert done.returncode in (0, 3), done
    return run


class Terminal:
    """with Terminal(80, 24) as terminal: terminal.run("lapwing tui run.lapwing"); terminal.wait("A step takes")"""

    def __init__(self, width, height, environment=None):
        self.folder = tempfile.mkdtemp(prefix="lapwing-tmux-")
        self.server = ["tmux", "-f", "/dev/null", "-S", os.path.join(self.folder, "socket")]
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": os.path.join(self.folder, "config"), **(environment or {})}
        self.environment.pop("TMUX", None)
        self.rc = os.path.join(self.folder, "rc")
        with open(self.rc, "w") as file:
            file.write("PS1='ready$ '\n")
        subprocess.run([*self.server, "new-session", "-d", "-x", str(width), "-y", str(height), f"bash --rcfile {self.rc}"],
                       env=self.environment, check=True)
        self.tmux("set", "-g", "default-terminal", "tmux-256color")
        self.tmux("set", "-s", "set-clipboard", "on")

    def __enter__(self):
        self.wait("ready$")
        return self

    def __exit__(self, *_):
        subprocess.run([*self.server, "kill-server"], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def tmux(self, *arguments):
        return subprocess.run([*self.server, *arguments], check=True, capture_output=True, text=True).stdout

    def run(self, command):
        self.tmux("send-keys", "-l", command)
        self.tmux("send-keys", "Enter")

    def keys(self, *names):
        """tmux names: Down, Enter, Escape, or one character."""
        for name in names:
            self.tmux("send-keys", name)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def click(self, x, y):
        """On column @x, line @y, from 0: in the coding that the program asked this terminal for."""
        if self.tmux("display-message", "-p", "#{mouse_sgr_flag}").strip() == "1":
            self.type(f"\x1b[<0;{x + 1};{y + 1}M\x1b[<0;{x + 1};{y + 1}m")
        else:
            self.type(f"\x1b[M {chr(33 + x)}{chr(33 + y)}\x1b[M#{chr(33 + x)}{chr(33 + y)}")

    def paste(self, text):
        """As a terminal does: with marks around it if the program asked for them."""
        self.tmux("set-buffer", text)
        self.tmux("paste-buffer", "-p", "-d")

    def flags(self):
        """Of the terminal: is the other screen shown, is there a cursor, does the mouse report."""
        return self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}").strip()

    def resize(self, width, height):
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, styles=False):
        return self.tmux("capture-pane", "-p", *(["-e"] if styles else []))

    def wait(self, text, timeout_s=20, absent=False):
        """Until @text is on the screen (or is not any more). Return: the screen."""
        end_s = time.monotonic() + timeout_s
        while True:
            screen = self.screen()
            if (text in screen) != absent:
                return screen
            assert time.monotonic() < end_s, f"{'still' if absent else 'not'} on the screen: {text!r}\n{screen}"
            time.sleep(0.05)

    def pid_of(self, name):
        """Of the program that runs in it."""
        tty = self.tmux("display-message", "-p", "#{pane_tty}").strip()
        lines = subprocess.run(["ps", "-t", tty.removeprefix("/dev/"), "-o", "pid=,comm="], capture_output=True, text=True,
                               check=True).stdout
        return int(next(line.split()[0] for line in lines.splitlines() if line.split()[1] == name))
