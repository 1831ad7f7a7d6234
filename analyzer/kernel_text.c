/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/kernel_text.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* int *status: 0 = done. Its result is malloc()ed. As cxxabi.h has it. */
typedef char *(*demangle_fn)(const char *mangled, char *buffer, size_t *n_bytes, int *status);

enum { LONGEST_MANGLED = 2048 };

/* Not linked: a run is read as well without a C++ library. Return: NULL: there is none. */
static demangle_fn find_demangle(void)
{
	static _Atomic uintptr_t found; /* 1: there is none */
	uintptr_t at = atomic_load(&found);

	if (!at) {
		void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);

		at = library ? (uintptr_t)dlsym(library, "__cxa_demangle") : 0;
		at = at ? at : 1;
		atomic_store(&found, at);
	}
	return at == 1 ? NULL : (demangle_fn)at;
}

/* Return: malloc()ed, NULL: it stays as it is. */
static char *demangle(const char *name)
{
	demangle_fn demangle_it = find_demangle();
	int status = -1;
	char *text;

	if (strncmp(name, "_Z", 2) || strlen(name) > LONGEST_MANGLED || !demangle_it)
		return NULL;
	text = demangle_it(name, NULL, NULL, &status);
	if (status == 0)
		return text;
	free(text);
	return NULL;
}

static bool is_of_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '~';
}

/* Where the arguments of the function begin, its template's left out; 0: it has none. */
static size_t arguments_at(const char *name)
{
	static const char anonymous[] = "(anonymous namespace)";
	int depth = 0;

	for (size_t i = 0; name[i]; i++) {
		if (!strncmp(name + i, anonymous, sizeof(anonymous) - 1)) {
			i += sizeof(anonymous) - 2;
			continue;
		}
		depth += (name[i] == '<') - (name[i] == '>');
		if (name[i] == '(' && depth <= 0 && i > 0 && name[i - 1] != ' ' &&
			strncmp(name + i, "()", 2))
			return i;
	}
	return 0;
}

/* The type that it returns ends at the last blank before its name that is in no template. */
static size_t name_at(const char *name, size_t end)
{
	size_t from = 0;
	int depth = 0;

	for (size_t i = 0; i < end && name[i]; i++) {
		depth += (name[i] == '<') - (name[i] == '>');
		if (name[i] == ' ' && depth == 0 && strncmp(name + i, " namespace)", 11) &&
			i + 1 < end)
			from = i + 1;
	}
	return from;
}

const char *lw_kernel_text(const char *name, char text[LW_KERNEL_TEXT_BYTES])
{
	char *demangled = demangle(name);
	const char *from = demangled ? demangled : name;
	size_t end = arguments_at(from), at = name_at(from, end), n = 0, word = 0;

	for (; at < end && n + 1 < LW_KERNEL_TEXT_BYTES; at++) {
		if (from[at] == ':' && from[at + 1] == ':') { /* a namespace, or a class */
			n = word;
			at++;
			continue;
		}
		if (!is_of_name(from[at]) && from[at] != '(' && from[at] != ')' &&
			!(from[at] == ' ' && !strncmp(from + at, " namespace)", 11)))
			word = n + 1;
		text[n++] = from[at];
	}
	text[n] = 0;
	if (!n) /* no function, or none that is read */
		strncat(text, from, LW_KERNEL_TEXT_BYTES - 1);
	free(demangled);
	return text;
}
