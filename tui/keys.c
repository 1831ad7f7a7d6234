/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/keys.h"

#include <stdio.h>
#include <string.h>

static const struct lw_key_row rows[] = {
	{'1', LW_REQUEST_VIEW, "a view, as the second line names them"},
	{'2', LW_REQUEST_VIEW + 1, NULL},
	{'3', LW_REQUEST_VIEW + 2, NULL},
	{'4', LW_REQUEST_VIEW + 3, NULL},
	{'5', LW_REQUEST_VIEW + 4, NULL},
	{'6', LW_REQUEST_VIEW + 5, NULL},
	{'7', LW_REQUEST_VIEW + 6, NULL},
	{'8', LW_REQUEST_VIEW + 7, NULL},
	{'9', LW_REQUEST_VIEW + 8, NULL},
	{'0', LW_REQUEST_VIEW + 9, NULL},
	{'-', LW_REQUEST_VIEW + 10, NULL},
	{LW_KEY_TAB, LW_REQUEST_NEXT_VIEW, "next view"},
	{LW_KEY_BACK_TAB, LW_REQUEST_PREVIOUS_VIEW, "view before"},

	{LW_KEY_UP, LW_REQUEST_UP, "up"},
	{'k', LW_REQUEST_UP, NULL},
	{LW_KEY_DOWN, LW_REQUEST_DOWN, "down"},
	{'j', LW_REQUEST_DOWN, NULL},
	{LW_KEY_LEFT, LW_REQUEST_LEFT, "left"},
	{'h', LW_REQUEST_LEFT, NULL},
	{LW_KEY_RIGHT, LW_REQUEST_RIGHT, "right"},
	{'l', LW_REQUEST_RIGHT, NULL},
	{LW_KEY_PAGE_UP, LW_REQUEST_PAGE_UP, "a screen up"},
	{'B' & 0x1f, LW_REQUEST_PAGE_UP, NULL},
	{LW_KEY_PAGE_DOWN, LW_REQUEST_PAGE_DOWN, "a screen down"},
	{'F' & 0x1f, LW_REQUEST_PAGE_DOWN, NULL},
	{LW_KEY_HOME, LW_REQUEST_TOP, "to the first"},
	{'g', LW_REQUEST_TOP, NULL},
	{LW_KEY_END, LW_REQUEST_BOTTOM, "to the last"},
	{'G', LW_REQUEST_BOTTOM, NULL},
	{LW_KEY_ENTER, LW_REQUEST_ENTER, "open what is selected"},
	{LW_KEY_ESCAPE, LW_REQUEST_BACK, "close it, go back to the overview"},
	{LW_KEY_CLICK, LW_REQUEST_CLICK, "select; on a view's name: show it"},

	{'s', LW_REQUEST_SORT, "sort by the next column"},
	{'r', LW_REQUEST_SORT_REVERSE, "sort the other way round"},
	{'t', LW_REQUEST_TURN, "the view's other side"},
	{']', LW_REQUEST_NEXT_STEP, "next step; live: later"},
	{'[', LW_REQUEST_PREVIOUS_STEP, "step before; live: earlier"},
	{'.', LW_REQUEST_NEXT_ITEM, "next collective of this rank or tensor"},
	{',', LW_REQUEST_PREVIOUS_ITEM, "the one before"},
	{'+', LW_REQUEST_ZOOM_IN, "closer; more"},
	{'=', LW_REQUEST_ZOOM_IN, NULL},
	{'_', LW_REQUEST_ZOOM_OUT, "farther; less"},
	{'z', LW_REQUEST_ZOOM_OUT, NULL},
	{'a', LW_REQUEST_ZOOM_ALL, "all of the run"},
	{'f', LW_REQUEST_FOLLOW, "follow this collective over all ranks"},
	{'i', LW_REQUEST_NIC, "what crossed the network (NIC), shown or not"},
	{'u', LW_REQUEST_GPU, "what GPUs did: by kind, by stream, not shown"},
	{'p', LW_REQUEST_RANGES, "the program's ranges, shown or not"},
	{'v', LW_REQUEST_KERNELS, "select kernels and copies, ranges, or collectives"},
	{'R', LW_REQUEST_RESET, "as recorded"},

	{'/', LW_REQUEST_SEARCH, "search"},
	{'n', LW_REQUEST_FIND_NEXT, "next match"},
	{'N', LW_REQUEST_FIND_PREVIOUS, "match before"},
	{':', LW_REQUEST_COMMAND, "a command (:help lists them)"},
	{'y', LW_REQUEST_COPY, "copy what is selected (OSC 52)"},
	{'e', LW_REQUEST_EXPORT, "write what is shown to a file"},
	{' ', LW_REQUEST_PAUSE, "live: hold this picture, go on"},
	{'m', LW_REQUEST_MARK, "live: mark this moment"},
	{'w', LW_REQUEST_SNAPSHOT, "live: write a snapshot"},
	{LW_KEY_CTRL_L, LW_REQUEST_REDRAW, "draw the screen anew"},
	{'?', LW_REQUEST_HELP, "these keys"},
	{LW_KEY_F1, LW_REQUEST_HELP, NULL},
	{'q', LW_REQUEST_QUIT, "leave"},
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
	{"F1", LW_KEY_F1},
	{"Click", LW_KEY_CLICK},
};
enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

const struct lw_key_row *lw_keys(size_t *ret_n)
{
	*ret_n = N_ROWS;
	return rows;
}

enum lw_request lw_key_request(uint32_t key)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].key == key)
			return rows[i].request;
	return LW_REQUEST_NONE;
}

uint32_t lw_key_of(enum lw_request request)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i].request == request)
			return rows[i].key;
	return LW_KEY_NONE;
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
