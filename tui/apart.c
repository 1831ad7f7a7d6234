/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/apart.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { CRASH_STACK_BYTES = 64 << 10 };

void lw_apart_crash_stack(void)
{
	static _Thread_local char bytes[CRASH_STACK_BYTES];
	const stack_t stack = {.ss_sp = bytes, .ss_size = sizeof(bytes)};
	stack_t there;

	/* A sanitizer gives its threads one, and takes back what it finds at their end. */
	if (sigaltstack(NULL, &there) == 0 && there.ss_flags & SS_DISABLE)
		sigaltstack(&stack, NULL);
}

struct start {
	void *(*work)(void *context);
	void *context;
};

static void *begin(void *context)
{
	struct start start = *(struct start *)context;

	free(context);
	lw_apart_crash_stack();
	return start.work(start.context);
}

int lw_apart_begin(
	pthread_t *ret_thread, void *(*work)(void *context), void *context, const char *what)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	struct start *start = malloc(sizeof(*start));
	sigset_t asked, before;
	int error;

	if (!start)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	*start = (struct start){.work = work, .context = context};
	sigfillset(&asked);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigdelset(&asked, crashes[i]);
	pthread_sigmask(SIG_SETMASK, &asked, &before);
	error = pthread_create(ret_thread, NULL, begin, start);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error)
		return LW_OK;
	free(start);
	return lw_fail(LW_ERR_IO, "no thread to %s: %s", what, strerror(error));
}
