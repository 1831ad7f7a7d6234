/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/keys.h"

#include <stdio.h>
#include <string.h>

static const struct lw_key_row rows[] = {
	{'1', LW_REQUEST_VIEW, NULL, "a view, as the second line names them"},
	{'2', LW_REQUEST_VIEW + 1, NULL, NULL},
	{'3', LW_REQUEST_VIEW + 2, NULL, NULL},
	{'4', LW_REQUEST_VIEW + 3, NULL, NULL},
	{'5', LW_REQUEST_VIEW + 4, NULL, NULL},
	{'6', LW_REQUEST_VIEW + 5, NULL, NULL},
	{'7', LW_REQUEST_VIEW + 6, NULL, NULL},
	{'8', LW_REQUEST_VIEW + 7, NULL, NULL},
	{'9', LW_REQUEST_VIEW + 8, NULL, NULL},
	{'0', LW_REQUEST_VIEW + 9, NULL, NULL},
	{'-', LW_REQUEST_VIEW + 10, NULL, NULL},
	{LW_KEY_TAB, LW_REQUEST_NEXT_VIEW, NULL, "next view"},
	{LW_KEY_BACK_TAB, LW_REQUEST_PREVIOUS_VIEW, NULL, "view before"},

	{LW_KEY_UP, LW_REQUEST_UP, NULL, "up"},
	{'k', LW_REQUEST_UP, NULL, NULL},
	{LW_KEY_DOWN, LW_REQUEST_DOWN, NULL, "down"},
	{'j', LW_REQUEST_DOWN, NULL, NULL},
	{LW_KEY_LEFT, LW_REQUEST_LEFT, NULL, "left"},
	{'h', LW_REQUEST_LEFT, NULL, NULL},
	{LW_KEY_RIGHT, LW_REQUEST_RIGHT, NULL, "right"},
	{'l', LW_REQUEST_RIGHT, NULL, NULL},
	{LW_KEY_PAGE_UP, LW_REQUEST_PAGE_UP, NULL, "a screen up"},
	{'B' & 0x1f, LW_REQUEST_PAGE_UP, NULL, NULL},
	{LW_KEY_PAGE_DOWN, LW_REQUEST_PAGE_DOWN, NULL, "a screen down"},
	{'F' & 0x1f, LW_REQUEST_PAGE_DOWN, NULL, NULL},
	{LW_KEY_HOME, LW_REQUEST_TOP, NULL, "to the first"},
	{'g', LW_REQUEST_TOP, NULL, NULL},
	{LW_KEY_END, LW_REQUEST_BOTTOM, NULL, "to the last"},
	{'G', LW_REQUEST_BOTTOM, NULL, NULL},
	{LW_KEY_ENTER, LW_REQUEST_ENTER, NULL, "open what is selected"},
	{LW_KEY_ESCAPE, LW_REQUEST_BACK, NULL, "close it, go back"},
	{LW_KEY_CLICK, LW_REQUEST_CLICK, NULL, "select; on a view's name: show it"},

	{'s', LW_REQUEST_SORT, "timeline", "lanes a rank: as fits, all, two, one"},
	{'s', LW_REQUEST_SORT, NULL, "sort by the next column"},
	{'r', LW_REQUEST_SORT_REVERSE, NULL, "sort the other way round"},
	{'t', LW_REQUEST_TURN, NULL, "the view's other side"},
	{']', LW_REQUEST_NEXT_STEP, NULL, "next step; live: later"},
	{'[', LW_REQUEST_PREVIOUS_STEP, NULL, "step before; live: earlier"},
	{'.', LW_REQUEST_NEXT_ITEM, "timeline", "next collective of this rank or tensor"},
	{',', LW_REQUEST_PREVIOUS_ITEM, "timeline", "the one before"},
	{'+', LW_REQUEST_ZOOM_IN, NULL, "closer; more"},
	{'=', LW_REQUEST_ZOOM_IN, NULL, NULL},
	{'_', LW_REQUEST_ZOOM_OUT, NULL, "farther; less"},
	{'z', LW_REQUEST_ZOOM_OUT, NULL, NULL},
	{'a', LW_REQUEST_ZOOM_ALL, NULL, "all of the run"},
	{'f', LW_REQUEST_FOLLOW, NULL, "follow this collective over all ranks"},
	{'R', LW_REQUEST_RESET, NULL, "as recorded"},

	{'/', LW_REQUEST_SEARCH, NULL, "search"},
	{'n', LW_REQUEST_FIND_NEXT, NULL, "next match"},
	{'N', LW_REQUEST_FIND_PREVIOUS, NULL, "match before"},
	{':', LW_REQUEST_COMMAND, NULL, "a command (:help lists them)"},
	{'y', LW_REQUEST_COPY, NULL, "copy what is selected (OSC 52)"},
	{'e', LW_REQUEST_EXPORT, NULL, "write what is shown to a file"},
	{' ', LW_REQUEST_PAUSE, NULL, "live: hold this picture, go on"},
	{'m', LW_REQUEST_MARK, NULL, "live: mark this moment"},
	{'w', LW_REQUEST_SNAPSHOT, NULL, "live: write a snapshot"},
	{LW_KEY_CTRL_L, LW_REQUEST_REDRAW, NULL, "draw the screen anew"},
	{'?', LW_REQUEST_HELP, NULL, "these keys"},
	{'q', LW_REQUEST_QUIT, NULL, "leave"},
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static const struct {
	const char *name;
	uint32_t key;
} names[] = {
	{"Tab", LW_KEY_TAB},
	{"Enter", LW_KEY_ENTER},
	{"Esc", LW_KEY_ESCAPE},
	{"Backspace", LW_KEY_BACKSPACE},
	{"Space", ' '},
	{"Up", LW_KEY_UP},
	{"Down", LW_KEY_DOWN},
	{"Left", LW_KEY_LEFT},
	{"Right", LW_KEY_RIGHT},
	{"PageUp", LW_KEY_PAGE_UP},
	{"PageDown", LW_KEY_PAGE_DOWN},
	{"Home", LW_KEY_HOME},
	{"End", LW_KEY_END},
	{"Shift-Tab", LW_KEY_BACK_TAB},
	{"Click", LW_KEY_CLICK},
};
enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

const struct lw_key_row *lw_keys(size_t *ret_n)
{
	*ret_n = N_ROWS;
	return rows;
}

enum lw_request lw_key_request(uint32_t key, const char *view)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].key == key && (!rows[i].view || !strcmp(rows[i].view, view)))
			return rows[i].request;
	return LW_REQUEST_NONE;
}

const char *lw_key_name(uint32_t key, char text[LW_KEY_NAME_BYTES])
{
	for (size_t i = 0; i < N_NAMES; i++)
		if (names[i].key == key) {
			snprintf(text, LW_KEY_NAME_BYTES, "%s", names[i].name);
			return text;
		}
	if (key < 0x20)
		snprintf(text, LW_KEY_NAME_BYTES, "Ctrl-%c", (char)(key | 0x40));
	else
		snprintf(text, LW_KEY_NAME_BYTES, "%c", key < 0x7f ? (char)key : '?');
	return text;
}

uint32_t lw_key_named(const char *name)
{
	size_t n = strlen(name);

	if (n == 1)
		return (unsigned char)name[0];
	if (n == 8 && !strncmp(name, "<Ctrl-", 6) && name[7] == '>')
		return (uint32_t)(name[6] & 0x1f);
	for (size_t i = 0; i < N_NAMES; i++)
		if (n == strlen(names[i].name) + 2 && name[0] == '<' && name[n - 1] == '>' &&
			!strncmp(name + 1, names[i].name, n - 2))
			return names[i].key;
	return LW_KEY_NONE;
}
