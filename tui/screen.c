/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "tui/apart.h"

enum { TICK_MS = 100, ESCAPE_MS = 25, MAX_COPY_BYTES = 70000 /* terminals drop longer ones */ };

/* ---- how styles look ----------------------------------------------------------------------------- */

/* Foreground and background of 256 colours and of 8 (-1: the terminal's own), and what is added where there
 * are none. */
static const struct {
	short fg, bg, fg8, bg8;
	attr_t attributes, mono;
} looks[LW_STYLE_COUNT] = {
	[LW_STYLE_TEXT] = {-1, -1, -1, -1, A_NORMAL, A_NORMAL},
	[LW_STYLE_DIM] = {245, -1, -1, -1, A_NORMAL, A_NORMAL},
	[LW_STYLE_STRONG] = {-1, -1, -1, -1, A_BOLD, A_BOLD},
	[LW_STYLE_TITLE] = {252, 236, COLOR_BLACK, COLOR_WHITE, A_NORMAL, A_REVERSE},
	[LW_STYLE_TAB] = {231, 25, COLOR_WHITE, COLOR_BLUE, A_BOLD, A_BOLD},
	[LW_STYLE_SELECTED] = {231, 24, COLOR_WHITE, COLOR_BLUE, A_NORMAL, A_REVERSE},
	[LW_STYLE_GOOD] = {71, -1, COLOR_GREEN, -1, A_NORMAL, A_NORMAL},
	[LW_STYLE_WARN] = {214, -1, COLOR_YELLOW, -1, A_NORMAL, A_BOLD},
	[LW_STYLE_BAD] = {203, -1, COLOR_RED, -1, A_BOLD, A_BOLD},
	/* lanes: told apart by people who do not see red or green, too (Okabe and Ito) */
	[LW_STYLE_COMPUTE] = {36, -1, COLOR_GREEN, -1, A_NORMAL, A_NORMAL},
	[LW_STYLE_NEGOTIATE] = {220, -1, COLOR_YELLOW, -1, A_NORMAL, A_NORMAL},
	[LW_STYLE_WAIT] = {247, -1, COLOR_WHITE, -1, A_NORMAL, A_NORMAL},
	[LW_STYLE_ALLREDUCE] = {32, -1, COLOR_BLUE, -1, A_NORMAL, A_NORMAL},
	[LW_STYLE_MISC] = {175, -1, COLOR_MAGENTA, -1, A_NORMAL, A_NORMAL},
	[LW_STYLE_EXPOSED] = {166, -1, COLOR_RED, -1, A_NORMAL, A_NORMAL},
	[LW_STYLE_IDLE] = {240, -1, -1, -1, A_NORMAL, A_NORMAL},
	/* as heat.c: light is little */
	[LW_STYLE_HEAT_FIRST + 0] = {16, 230, COLOR_BLACK, COLOR_WHITE, A_NORMAL, A_NORMAL},
	[LW_STYLE_HEAT_FIRST + 1] = {16, 193, COLOR_BLACK, COLOR_WHITE, A_NORMAL, A_NORMAL},
	[LW_STYLE_HEAT_FIRST + 2] = {16, 151, COLOR_BLACK, COLOR_CYAN, A_NORMAL, A_NORMAL},
	[LW_STYLE_HEAT_FIRST + 3] = {16, 115, COLOR_BLACK, COLOR_CYAN, A_NORMAL, A_NORMAL},
	[LW_STYLE_HEAT_FIRST + 4] = {16, 73, COLOR_BLACK, COLOR_CYAN, A_NORMAL, A_NORMAL},
	[LW_STYLE_HEAT_FIRST + 5] = {231, 31, COLOR_WHITE, COLOR_BLUE, A_NORMAL, A_REVERSE},
	[LW_STYLE_HEAT_FIRST + 6] = {231, 25, COLOR_WHITE, COLOR_BLUE, A_NORMAL, A_REVERSE},
	[LW_STYLE_HEAT_FIRST + 7] = {231, 18, COLOR_WHITE, COLOR_BLUE, A_BOLD, A_REVERSE | A_BOLD},
};

static attr_t attributes[LW_STYLE_COUNT];

static void make_styles(void)
{
	const char *no_color = getenv("NO_COLOR");
	bool is_mono = (no_color && *no_color) || !has_colors();

	if (!is_mono) {
		start_color();
		use_default_colors();
	}
	for (short i = 0; i < LW_STYLE_COUNT; i++) {
		bool is_rich = COLORS >= 256;

		attributes[i] = looks[i].mono;
		if (is_mono || init_pair((short)(i + 1), is_rich ? looks[i].fg : looks[i].fg8,
				       is_rich ? looks[i].bg : looks[i].bg8) == ERR)
			continue;
		attributes[i] = looks[i].attributes | (attr_t)COLOR_PAIR(i + 1);
	}
}

static void show(const struct lw_cells *cells)
{
	for (int y = 0; y < cells->height; y++) {
		const struct lw_cell *line = cells->at + (size_t)y * (size_t)cells->width;

		move(y, 0);
		for (int x = 0; x < cells->width; x++) {
			wchar_t text[2] = {(wchar_t)line[x].rune, 0};
			cchar_t cell;

			if (!text[0])
				continue;
			setcchar(&cell, text, attributes[line[x].style],
				(short)PAIR_NUMBER(attributes[line[x].style]), NULL);
			mvadd_wch(y, x, &cell);
		}
	}
	refresh();
}

/* ---- giving the terminal back --------------------------------------------------------------------- */

#define PASTE_ON  "\033[?2004h" /* the terminal says where pasted text begins and ends */
#define PASTE_OFF "\033[?2004l"

static struct termios before;
static char restoring[256]; /* what the terminal is told; made while all is well */
static size_t n_restoring;
static volatile sig_atomic_t ending, stopping;

static void add_restoring(const char *text)
{
	size_t n = text ? strlen(text) : 0;

	if (text == (char *)-1 || n_restoring + n >= sizeof(restoring))
		return;
	memcpy(restoring + n_restoring, text, n);
	n_restoring += n;
}

static void crashed(int number)
{
	/* only what is allowed in here; what is written cannot be helped if it fails */
	if (write(STDOUT_FILENO, restoring, n_restoring) < 0)
		n_restoring = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
	raise(number); /* SA_RESETHAND: it ends as it would have */
}

static void asked_to_end(int number)
{
	ending = number;
}

/* Past ncurses, which has written all it had. */
static void tell(const char *text)
{
	fputs(text, stdout);
	fflush(stdout);
}

static void asked_to_stop(int number)
{
	stopping = number;
}

static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGQUIT};
static const int ends[] = {SIGTERM, SIGHUP, SIGINT};

static void prepare_for_signals(void)
{
	struct sigaction crash = {
		.sa_handler = crashed, .sa_flags = (int)SA_RESETHAND | SA_NODEFER | SA_ONSTACK};
	struct sigaction end = {.sa_handler = asked_to_end};
	struct sigaction stop = {.sa_handler = asked_to_stop};

	n_restoring = 0;
	add_restoring(PASTE_OFF "\033[?1006l\033[?1000l");
	add_restoring(keypad_local);
	add_restoring(exit_attribute_mode);
	add_restoring(orig_pair);
	add_restoring(cursor_normal);
	add_restoring(exit_ca_mode);
	lw_apart_crash_stack();
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &crash, NULL);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &end, NULL);
	sigaction(SIGTSTP, &stop, NULL);
}

/* Ctrl-Z: the terminal is the shell's until the shell goes on with this program. */
static void stop_for_a_while(void)
{
	struct sigaction stop = {.sa_handler = asked_to_stop};

	stopping = 0;
	tell(PASTE_OFF);
	endwin();
	signal(SIGTSTP, SIG_DFL);
	raise(SIGTSTP);
	sigaction(SIGTSTP, &stop, NULL);
	tell(PASTE_ON);
	clearok(stdscr, TRUE);
	refresh();
}

/* ---- keys ----------------------------------------------------------------------------------------- */

static uint32_t key_of(int code)
{
	switch (code) {
	case KEY_UP:
		return LW_KEY_UP;
	case KEY_DOWN:
		return LW_KEY_DOWN;
	case KEY_LEFT:
		return LW_KEY_LEFT;
	case KEY_RIGHT:
		return LW_KEY_RIGHT;
	case KEY_PPAGE:
		return LW_KEY_PAGE_UP;
	case KEY_NPAGE:
		return LW_KEY_PAGE_DOWN;
	case KEY_HOME:
		return LW_KEY_HOME;
	case KEY_END:
		return LW_KEY_END;
	case KEY_BTAB:
		return LW_KEY_BACK_TAB;
	case KEY_F(1):
		return LW_KEY_F1;
	case KEY_ENTER:
		return LW_KEY_ENTER;
	case KEY_BACKSPACE:
		return LW_KEY_BACKSPACE;
	default:
		return LW_KEY_NONE;
	}
}

static void take_mouse(struct lw_app *app)
{
	MEVENT event;

	if (getmouse(&event) != OK)
		return;
	if (event.bstate & BUTTON4_PRESSED)
		lw_app_key(app, LW_KEY_UP, 0, 0);
	else if (event.bstate & BUTTON5_PRESSED)
		lw_app_key(app, LW_KEY_DOWN, 0, 0);
	else if (event.bstate & (BUTTON1_PRESSED | BUTTON1_CLICKED))
		lw_app_key(app, LW_KEY_CLICK, event.x, event.y);
}

/* Between the marks of a paste; an end that does not come is not waited for. */
static bool is_pasting;

static bool has_next(int wait_ms, wint_t *ret_code)
{
	int kind;

	timeout(wait_ms);
	kind = get_wch(ret_code);
	if (kind ==
		KEY_CODE_YES) /* a key that ncurses knows: no part of a sequence, no character */
		ungetch((int)*ret_code);
	return kind == OK;
}

enum { PASTE_BEGINS = 200, PASTE_ENDS = 201, MOST_SEQUENCE = 4096, MOST_IDLE = 10 };

/* ESC [ parameters letter; ESC O likewise. Return: its first parameter. */
static int skip_control(void)
{
	int parameter = 0;
	bool is_first = true;
	wint_t code;

	for (int i = 0; i < MOST_SEQUENCE && has_next(ESCAPE_MS, &code); i++) {
		if (code >= 0x40 && code <= 0x7e)
			break;
		is_first &= code >= '0' && code <= '9';
		if (is_first && parameter < PASTE_ENDS)
			parameter = parameter * 10 + (int)(code - '0');
	}
	return parameter;
}

/* ESC ] .. and its kin: to the bell or to ESC \. */
static void skip_string(void)
{
	wint_t code = 0, last = 0;

	for (int i = 0; i < MOST_SEQUENCE && has_next(ESCAPE_MS, &code); i++) {
		if (code == '\a' || (last == 0x1b && code == '\\'))
			return;
		last = code;
	}
}

/* After ESC: what comes with it at once is no key but a sequence that ncurses does not know. Return: it was one. */
static bool skip_sequence(void)
{
	wint_t code;
	int parameter;

	if (!has_next(0, &code))
		return false;
	switch (code) {
	case '[':
		parameter = skip_control();
		if (parameter == PASTE_BEGINS || parameter == PASTE_ENDS)
			is_pasting = parameter == PASTE_BEGINS;
		return true;
	case 'O':
		skip_control();
		return true;
	case ']':
	case 'P':
	case 'X':
	case '^':
	case '_':
		skip_string();
		return true;
	default:
		unget_wch((wchar_t)code); /* Escape, then another key */
		return false;
	}
}

/* What is pasted is text for a prompt, and no keys. */
static void paste(struct lw_app *app, wint_t code)
{
	if ((app->mode == LW_APP_SEARCH || app->mode == LW_APP_COMMAND) && code >= 0x20)
		lw_app_key(app, code, 0, 0);
}

/* Return: LW_OK, LW_ERR_NOMEM. */
static int take_key(struct lw_app *app, int kind, wint_t code)
{
	if (kind == KEY_CODE_YES && code == KEY_RESIZE)
		return lw_app_resize(app, COLS, LINES);
	if (kind == OK && code == LW_KEY_ESCAPE && skip_sequence())
		return LW_OK;
	if (is_pasting) {
		if (kind == OK)
			paste(app, code);
		return LW_OK;
	}
	if (kind == KEY_CODE_YES && code == KEY_MOUSE)
		take_mouse(app);
	else if (kind == KEY_CODE_YES)
		lw_app_key(app, key_of((int)code), 0, 0);
	else
		lw_app_key(app,
			code == '\r'   ? LW_KEY_ENTER
			: code == '\b' ? LW_KEY_BACKSPACE
				       : code,
			0, 0);
	return LW_OK;
}

/* ---- the clipboard of the terminal, OSC 52 ---------------------------------------------------------- */

static void copy_out(char **copied)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *text = (const unsigned char *)*copied;
	size_t n = strlen(*copied);

	if (n > MAX_COPY_BYTES)
		n = MAX_COPY_BYTES;
	fputs("\033]52;c;", stdout);
	for (size_t i = 0; i < n; i += 3) {
		uint32_t bits = (uint32_t)text[i] << 16 |
				(i + 1 < n ? (uint32_t)text[i + 1] << 8 : 0) |
				(i + 2 < n ? text[i + 2] : 0);

		putchar(digits[bits >> 18]);
		putchar(digits[bits >> 12 & 63]);
		putchar(i + 1 < n ? digits[bits >> 6 & 63] : '=');
		putchar(i + 2 < n ? digits[bits & 63] : '=');
	}
	putchar('\a');
	fflush(stdout);
	free(*copied);
	*copied = NULL;
}

/* ---- the loop --------------------------------------------------------------------------------------- */

bool lw_screen_is_utf8(void)
{
	setlocale(LC_CTYPE, "");
	return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

bool lw_screen_is_ascii(const struct lw_screen_options *options)
{
	bool is_utf8 = lw_screen_is_utf8(); /* also for the widths of characters */

	return options->is_ascii || !(is_utf8 || options->is_utf8);
}

/* What can be known without the screen. */
int lw_screen_check(void)
{
	const char *term = getenv("TERM");
	int found;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return lw_fail(LW_ERR_UNSUPPORTED,
			"this needs a terminal: `--dump VIEW` prints a screen as text, `lapwing report` the figures");
	if (!term || !*term || !strcmp(term, "dumb"))
		return lw_fail(LW_ERR_UNSUPPORTED,
			"TERM=%s says that this terminal cannot place a cursor: set TERM as it is (xterm-256color), or use `--dump VIEW`",
			term ? term : "");
	if (setupterm(NULL, STDOUT_FILENO, &found) == ERR)
		return lw_fail(LW_ERR_UNSUPPORTED,
			"nothing is known of the terminal TERM=%s (package ncurses-term knows more): set TERM, or use `--dump VIEW`",
			term);
	if (!cursor_address)
		return lw_fail(LW_ERR_UNSUPPORTED,
			"the terminal TERM=%s cannot place a cursor: use `--dump VIEW`", term);
	del_curterm(cur_term);
	return LW_OK;
}

static int begin(const struct lw_screen_options *options)
{
	int status = lw_screen_check();

	if (status < 0)
		return status;
	tcgetattr(STDIN_FILENO, &before);
	if (!newterm(NULL, stdout, stdin))
		return lw_fail(LW_ERR_UNSUPPORTED, "the terminal cannot be used");
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	curs_set(0);
	timeout(TICK_MS);
	make_styles();
	if (!options->is_mouse_off) {
		mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED,
			NULL);
		mouseinterval(0);
	}
	prepare_for_signals();
	tell(PASTE_ON);
	return LW_OK;
}

/* The other end has closed it, and no signal came: this is not its controlling terminal. */
static bool is_terminal_gone(void)
{
	struct pollfd terminal = {.fd = STDIN_FILENO};

	return poll(&terminal, 1, 0) > 0;
}

int lw_screen_signal(void)
{
	return ending;
}

int lw_screen_run(struct lw_app *app, const struct lw_screen_options *options)
{
	bool must_draw = true;
	int status, n_idle = 0;

	app->cells.is_ascii = !lw_screen_is_utf8() || options->is_ascii;
	status = begin(options);
	if (status < 0)
		return status;
	status = lw_app_resize(app, COLS, LINES);
	while (status == LW_OK && !app->is_over && !ending) {
		bool is_busy = lw_app_tick(app);
		wint_t code;
		int kind;

		must_draw |= is_busy;
		if (app->must_redraw)
			clearok(stdscr, TRUE);
		if (must_draw || app->must_redraw) {
			lw_app_draw(app);
			show(&app->cells);
		}
		if (app->copied)
			copy_out(&app->copied);
		must_draw = app->must_redraw = false;
		timeout(is_busy ? 0 : TICK_MS);
		kind = get_wch(&code);
		n_idle = kind == ERR ? n_idle + 1 : 0;
		if (kind == ERR && is_terminal_gone())
			ending = SIGHUP;
		is_pasting &= n_idle < MOST_IDLE;
		if (stopping) {
			stop_for_a_while();
			must_draw = true;
		}
		while (kind != ERR && status == LW_OK) { /* all there are, then one picture */
			must_draw = true;
			status = take_key(app, kind, code);
			timeout(0);
			kind = app->is_over ? ERR : get_wch(&code);
		}
	}
	tell(PASTE_OFF);
	endwin();
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		signal(ends[i], SIG_DFL); /* what is waited for from here on, Ctrl-C ends */
	signal(SIGTSTP, SIG_DFL);
	return status;
}
