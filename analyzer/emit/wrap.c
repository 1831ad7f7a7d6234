/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/wrap.h"

#include <stdbool.h>
#include <string.h>

enum { WIDTH = 79 };

void lw_print_wrapped(FILE *out, int indent, int at, const char *text)
{
	bool is_first = true;

	while (*text) {
		int n = (int)strcspn(text, " ");

		if (!is_first && at + 1 + n > WIDTH) {
			fprintf(out, "\n%*s", indent, "");
			at = indent;
		} else if (!is_first) {
			fputc(' ', out);
			at++;
		}
		is_first = false;
		fprintf(out, "%.*s", n, text);
		at += n;
		text += n;
		while (*text == ' ')
			text++;
	}
	fputc('\n', out);
}
