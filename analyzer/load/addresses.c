/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addresses.c - whose interface an address is, in a network namespace: for connections whose recording does not say
 * what they leave by.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"

struct place { /* an address of an interface */
	int64_t namespace_key;
	char address[LW_ADDRESS_BYTES];
	int32_t nic;
	bool is_loopback;
};

struct lw_load_addresses {
	lw_vec(struct place) at; /* by compare_place() */
};

static int compare_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->namespace_key != y->namespace_key)
		return x->namespace_key > y->namespace_key ? 1 : -1;
	return strcmp(x->address, y->address);
}

static int add_addresses(
	struct lw_load_addresses *addresses, const struct lw_nic *nic, int32_t index)
{
	for (const char *text = nic->addresses; *text;) {
		size_t n = strcspn(text, " ");
		struct place place = {nic->namespace_key, "", index, nic->is_loopback};

		if (n && n < sizeof(place.address)) {
			memcpy(place.address, text, n);
			if (lw_vec_push(&addresses->at, place) < 0)
				return LW_ERR_NOMEM;
		}
		text += n + (text[n] == ' ');
	}
	return LW_OK;
}

void lw_load_addresses_free(struct lw_load_addresses *addresses)
{
	if (addresses)
		lw_vec_free(&addresses->at);
	free(addresses);
}

int lw_load_addresses_make(const struct lw_loader *loader, struct lw_load_addresses **ret_addresses)
{
	struct lw_load_addresses *addresses = calloc(1, sizeof(*addresses));
	const struct lw_run *run = loader->run;
	int status = addresses ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory");

	for (size_t i = 0; i < run->nics.n && status == LW_OK; i++)
		if (run->nics.at[i].store == loader->store_index && run->nics.at[i].namespace_key &&
			!strcmp(run->nics.at[i].kind, "nic"))
			status = add_addresses(addresses, &run->nics.at[i], (int32_t)i);
	if (status < 0) {
		lw_load_addresses_free(addresses);
		return status;
	}
	if (addresses->at.n)
		qsort(addresses->at.at, addresses->at.n, sizeof(*addresses->at.at), compare_place);
	*ret_addresses = addresses;
	return LW_OK;
}

static const struct place *find(
	const struct lw_load_addresses *addresses, int64_t namespace_key, const char *address)
{
	struct place wanted = {.namespace_key = namespace_key};

	snprintf(wanted.address, sizeof(wanted.address), "%s",
		strncmp(address, "127.", 4) ? address : "127.0.0.1");
	return addresses->at.n ? bsearch(&wanted, addresses->at.at, addresses->at.n, sizeof(wanted),
					 compare_place)
			       : NULL;
}

/* What goes to an address of the same namespace goes over its loopback, whatever that address is on. */
int32_t lw_load_address_nic(const struct lw_load_addresses *addresses, int64_t namespace_key,
	const char *local, const char *peer)
{
	const struct place *place = find(addresses, namespace_key, local);

	if (!namespace_key)
		return LW_NONE;
	if (place && !place->is_loopback && find(addresses, namespace_key, peer))
		place = find(addresses, namespace_key, "127.0.0.1");
	return place ? place->nic : LW_NONE;
}
