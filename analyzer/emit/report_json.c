/* SPDX-License-Identifier: Apache-2.0 */
/* report_json.c - the report for programs; keys are only ever added (docs/schema/report.json). */
#include <math.h>
#include <string.h>

#include "analyzer/emit/flows.h"
#include "analyzer/emit/gpu.h"
#include "analyzer/emit/json.h"
#include "analyzer/emit/late_words.h"
#include "analyzer/emit/marks.h"
#include "analyzer/emit/report.h"

const char *lw_how_name(enum lw_how how)
{
	static const char *const names[] = {"measured", "fitted", "predicted", "assumed"};

	return names[how];
}

void lw_json_figure(struct lw_json *json, const char *key, struct lw_figure figure)
{
	if (figure.why && isnan(figure.value))
		lw_json_unknown(json, key, "", figure.why);
	else if (figure.why && isnan(figure.low))
		lw_json_unknown(json, key, ".low and .high", figure.why);
	lw_json_object(json, key);
	lw_json_double(json, "value", figure.value);
	lw_json_double(json, "low", figure.low);
	lw_json_double(json, "high", figure.high);
	lw_json_string(json, "how", lw_how_name(figure.how));
	lw_json_object_end(json);
}

/* Names that occur on any rank, each once, in the contract's order. */
static void put_names(struct lw_json *json, const char *key, const struct lw_run *run,
	const char *(*name_of)(int number), bool is_framework)
{
	lw_json_array(json, key);
	for (int number = 1; number < 8; number++) {
		bool is_there = false;

		for (size_t r = 0; r < run->ranks.n; r++)
			is_there |= (is_framework ? run->ranks.at[r].framework
						  : run->ranks.at[r].transport) == number;
		if (is_there)
			lw_json_string(json, NULL, name_of(number));
	}
	lw_json_array_end(json);
}

static void put_run(struct lw_json *json, const struct lw_analysis *analysis)
{
	const struct lw_run *run = analysis->run;

	lw_json_object(json, "run");
	lw_json_array(json, "hosts");
	for (size_t r = 0; r < run->ranks.n; r++) {
		bool is_new = run->ranks.at[r].host != NULL;

		for (size_t other = 0; other < r && is_new; other++)
			is_new = strcmp(run->ranks.at[other].host, run->ranks.at[r].host) != 0;
		if (is_new)
			lw_json_string(json, NULL, run->ranks.at[r].host);
	}
	lw_json_array_end(json);
	lw_json_int(json, "n_ranks", run->size);
	put_names(json, "frameworks", run, lw_framework_name, true);
	put_names(json, "transports", run, lw_transport_name, false);
	lw_json_object(json, "settings");
	lw_json_figure(json, "fusion_bytes", analysis->summary.fusion_bytes);
	lw_json_figure(json, "cycle_ns", analysis->summary.cycle_ns);
	lw_json_object_end(json);
	lw_json_figure(json, "duration_ns", analysis->summary.duration_ns);
	lw_json_object_end(json);
}

static void put_rank(struct lw_json *json, const struct lw_rank_summary *rank)
{
	lw_json_object(json, NULL);
	lw_json_int(json, "rank", rank->rank);
	lw_json_string(json, "host", rank->host);
	lw_json_figure(json, "step_ns", rank->step_ns);
	lw_json_figure(json, "compute_ns", rank->compute_ns);
	lw_json_figure(json, "comm_ns", rank->comm_ns);
	lw_json_figure(json, "hidden_ns", rank->hidden_ns);
	lw_json_figure(json, "exposed_ns", rank->exposed_ns);
	lw_json_figure(json, "idle_ns", rank->idle_ns);
	/* part of the allreduce_ns below: this rank was in, another was not yet */
	lw_json_figure(json, "exposed_entry_ns", rank->exposed_entry_ns);
	lw_json_object(json, "exposed_by_phase"); /* adds up to exposed_ns */
	lw_json_figure(json, "negotiate_ns", rank->exposed_negotiate_ns);
	lw_json_figure(json, "wait_ns", rank->exposed_wait_ns);
	lw_json_figure(json, "allreduce_ns", rank->exposed_allreduce_ns);
	lw_json_figure(json, "misc_ns", rank->exposed_misc_ns);
	lw_json_object_end(json);
	lw_json_object(json, "phases");
	lw_json_figure(json, "negotiate_ns", rank->negotiate_ns);
	lw_json_figure(json, "wait_ns", rank->wait_ns);
	lw_json_figure(json, "allreduce_ns", rank->allreduce_ns);
	lw_json_figure(json, "misc_ns", rank->misc_ns);
	lw_json_figure(json, "late_ns", rank->late_ns);
	lw_json_figure(json, "cycle_wait_ns", rank->tick_ns);
	lw_json_figure(json, "entry_ns", rank->entry_ns);
	lw_json_object_end(json);
	lw_json_object_end(json);
}

static void put_model(struct lw_json *json, const struct lw_analysis *analysis)
{
	const struct lw_cost *cost =
		analysis->has_fit ? &analysis->fit.cost[LW_FIT_COST_WIRE].cost : NULL;

	lw_json_object(json, "model");
	lw_json_figure(json, "alpha_ns", analysis->summary.alpha_ns);
	lw_json_figure(json, "beta_bytes_per_s", analysis->summary.beta_bytes_per_s);
	if (analysis->has_fit && !isnan(analysis->fit.figure[LW_FIT_UTILISATION_FRAC].value))
		lw_json_figure(
			json, "utilisation_frac", analysis->fit.figure[LW_FIT_UTILISATION_FRAC]);
	lw_json_string(json, "form", cost ? lw_cost_form_name(cost->form) : NULL);
	lw_json_array(
		json, "pieces"); /* of eq. 18: time = per_doubling * log2(D) + ..., or per byte */
	if (cost && cost->form == LW_COST_PIECEWISE) {
		lw_json_object(json, NULL);
		lw_json_double(json, "to_bytes", cost->threshold_bytes);
		lw_json_double(json, "ns_per_doubling", cost->left_ns_per_doubling);
		lw_json_double(json, "ns", cost->left_ns);
		lw_json_object_end(json);
		lw_json_object(json, NULL);
		lw_json_double(json, "from_bytes", cost->threshold_bytes);
		lw_json_double(json, "ns_per_byte", cost->right_ns_per_byte);
		lw_json_double(json, "ns", cost->right_ns);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
	lw_json_double(json, "mape_frac", cost ? cost->mape_frac : (double)NAN);
	lw_json_double(json, "cross_frac", cost ? cost->cross_frac : (double)NAN);
	lw_json_object_end(json);
}

static void put_cores(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_host_cores *host;

	lw_json_array(json, "cores");
	lw_vec_foreach (host, &run->cores) {
		lw_json_object(json, NULL);
		lw_json_string(json, "host", host->host);
		lw_json_int(json, "n_ranks", host->n_ranks);
		lw_json_int(json, "n_known", host->n_known);
		lw_json_double(json, "n_cores", host->n_cores);
		lw_json_double(json, "used_cores", host->used_cores);
		lw_json_double(json, "core_wait_frac", host->core_wait_frac);
		lw_json_bool(json, "is_contended", host->contended_frac > 0);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
}

static void put_first_mark(struct lw_json *json, const struct lw_run *run)
{
	if (run->ranks.n && run->ranks.at[0].steps.n && run->ranks.at[0].steps.at[0].mark >= 0)
		lw_json_int(json, "first_mark", run->ranks.at[0].steps.at[0].mark);
	else
		lw_json_null(json, "first_mark");
}

static void put_stragglers(struct lw_json *json, const struct lw_summary *summary)
{
	const struct lw_straggler *straggler;

	lw_json_array(json, "stragglers");
	lw_vec_foreach (straggler, &summary->stragglers) {
		lw_json_object(json, NULL);
		lw_json_int(json, "rank", straggler->rank);
		lw_json_string(json, "kind",
			straggler->is_persistent ? "persistent"
			: summary->n_steps == 1  ? "one step"
						 : "rotating");
		lw_json_figure(json, "late_ns", straggler->late_ns);
		lw_json_double(json, "steps_frac", straggler->steps_frac);
		lw_json_double(json, "last_ns", straggler->last_ns);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
}

/* The one that the answer names, whatever tells it. */
static void put_late(
	struct lw_json *json, const struct lw_run *run, const struct lw_summary *summary)
{
	struct lw_late late;

	lw_late_find(run, summary, &late);
	lw_json_object(json, "late");
	if (late.rank == LW_NONE)
		lw_json_null(json, "rank");
	else
		lw_json_int(json, "rank", late.rank);
	lw_json_string(json, "by", lw_late_by_name(late.by));
	lw_json_string(json, "text", *late.text ? late.text : NULL);
	lw_json_object_end(json);
}

void lw_json_why(struct lw_json *json, const char *name, struct lw_figure figure)
{
	char text[512];

	if ((!isnan(figure.value) && !isnan(figure.low)) || !figure.why)
		return;
	snprintf(text, sizeof(text), "%s%s: %s", name, isnan(figure.value) ? "" : ".low and .high",
		figure.why);
	lw_json_object(json, NULL);
	lw_json_string(json, "kind", "not known");
	lw_json_int(json, "count", 1);
	lw_json_string(json, "text", text);
	lw_json_object_end(json);
}

void lw_json_diags(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_diag *diag;

	lw_vec_foreach (diag, &run->diags) {
		lw_json_object(json, NULL);
		lw_json_string(json, "kind", diag->kind);
		lw_json_int(json, "count", (int64_t)diag->n);
		lw_json_string(json, "text", diag->text);
		lw_json_object_end(json);
	}
}

static void put_diags(struct lw_json *json, const struct lw_analysis *analysis)
{
	lw_json_array(json, "diag");
	lw_json_diags(json, analysis->run);
	lw_json_unknowns(json);
	lw_json_array_end(json);
}

int lw_report_json(const struct lw_analysis *analysis, FILE *out)
{
	const struct lw_summary *summary = &analysis->summary;
	const struct lw_rank_summary *rank;
	struct lw_json *json = lw_json_open();
	int status, closed;

	if (!json)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	lw_json_object(json, NULL);
	lw_json_string(json, "lapwing", "report");
	lw_json_int(json, "schema_version", 1);
	put_run(json, analysis);
	lw_json_object(json, "steps");
	lw_json_int(json, "n", (int64_t)summary->n_steps);
	lw_json_int(json, "n_excluded", (int64_t)summary->n_excluded);
	lw_json_figure(json, "step_ns", summary->step_ns);
	lw_json_figure(json, "exposed_frac", summary->exposed_frac);
	put_first_mark(json, analysis->run);
	lw_json_object_end(json);
	lw_json_array(json, "ranks");
	lw_vec_foreach (rank, &summary->ranks)
		put_rank(json, rank);
	lw_json_array_end(json);
	lw_json_object(json, "collectives");
	lw_json_figure(json, "n_per_step", summary->batches_per_step);
	lw_json_figure(json, "bytes_per_step", summary->bytes_per_step);
	lw_json_figure(json, "algbw_bytes_per_s", summary->algbw_bytes_per_s);
	lw_json_figure(json, "busbw_bytes_per_s", summary->busbw_bytes_per_s);
	lw_json_object_end(json);
	lw_json_object(json, "network");
	lw_json_figure(json, "sent_bytes_per_step", summary->sent_bytes_per_step);
	lw_json_figure(json, "rdma_bytes_per_step", summary->rdma_bytes_per_step);
	lw_json_figure(json, "expected_bytes_per_step", summary->expected_bytes_per_step);
	lw_json_figure(json, "ratio", summary->sent_ratio);
	lw_json_figure(json, "tcp_acked_ratio", summary->tcp_acked_ratio);
	lw_network_json(json, analysis);
	lw_flows_json(json, analysis->run);
	lw_json_object_end(json);
	lw_json_object(json, "scaling");
	lw_json_figure(json, "sf", summary->sf);
	lw_json_figure(json, "csf", summary->csf);
	lw_json_figure(json, "osf", summary->osf);
	lw_json_figure(json, "osf_f", summary->osf_f);
	lw_json_object_end(json);
	put_model(json, analysis);
	put_stragglers(json, summary);
	put_late(json, analysis->run, summary);
	put_cores(json, analysis->run);
	status = lw_gpu_json(json, analysis->run);
	lw_marks_json(json, analysis->run);
	lw_json_object(json, "loss");
	lw_json_int(json, "n_dropped", (int64_t)analysis->run->n_lost);
	lw_json_int(json, "n_missing_ranks", analysis->run->n_missing_ranks);
	lw_json_int(json, "n_hung_ranks", analysis->run->n_hung_ranks);
	lw_json_int(json, "hung_ns", analysis->run->hung_ns);
	lw_json_object_end(json);
	put_diags(json, analysis);
	lw_json_object_end(json);
	closed = lw_json_close(json, out);
	return status < 0 ? status : closed;
}
