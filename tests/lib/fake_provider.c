/* SPDX-License-Identifier: Apache-2.0 */
/* fake_provider.c - the provider of the libibverbs double, an object of its own as real ones are. */
#include "tests/lib/fake_verbs.h"

API int fake_provider_fill(struct verbs_context *context, const struct verbs_context_ops *ops);

/* Return: 0, which also keeps the last call from being made by way of the caller. */
API int fake_provider_fill(struct verbs_context *context, const struct verbs_context_ops *ops)
{
	verbs_set_ops(context, ops);
	verbs_set_ops(context, ops); /* some do it twice */
	return 0;
}
