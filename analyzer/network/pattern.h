/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h - which ranks exchange with which, and the known pattern that it is. What algorithm.c and pattern.c share. */
#ifndef LAPWING_ANALYZER_NETWORK_PATTERN_H
#define LAPWING_ANALYZER_NETWORK_PATTERN_H

#include "analyzer/network/network.h"

#define LW_NET_EVEN_FRAC 0.2 /* bytes this close are the same */

struct lw_net_shape {
	struct lw_run *run;
	size_t n;
	uint32_t *n_out, *n_in; /* edges */
	int32_t *next;          /* of ranks with one edge out */
	size_t n_edges;
	size_t n_both;                  /* edges with one the other way round */
	double least_bytes, most_bytes; /* of an edge */
	double sent_bytes;              /* of a rank, mean */
};

struct lw_net_pattern {
	enum lw_algorithm
		algorithm; /* LW_ALGORITHM_UNKNOWN: the text says between which nothing tells */
	bool (*fits)(const struct lw_net_shape *shape);
	const char *text;
	bool is_twofold; /* two of it, of half the bytes each */
};

/** lw_net_shape_make() - of the edges of @run. Return: LW_OK or LW_ERR_NOMEM; lw_net_shape_done() in any case. */
int lw_net_shape_make(struct lw_run *run, struct lw_net_shape *shape);
void lw_net_shape_done(struct lw_net_shape *shape);

/** lw_net_shape_hub() - the rank with most edges. */
size_t lw_net_shape_hub(const struct lw_net_shape *shape);

/** lw_net_pattern_of() - the first that fits more than two ranks; net.op_bytes is known. NULL: none. */
const struct lw_net_pattern *lw_net_pattern_of(const struct lw_net_shape *shape);

#endif /* LAPWING_ANALYZER_NETWORK_PATTERN_H */
