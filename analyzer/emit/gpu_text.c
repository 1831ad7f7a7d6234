/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_text.c - the report's section on GPUs and NCCL: at most 80 columns, as many lines as a page holds. */
#include <math.h>
#include <string.h>

#include "analyzer/emit/gpu.h"
#include "analyzer/emit/wrap.h"
#include "base/units.h"

enum {
	MAX_RANKS = 16,
	MAX_KERNELS = 8,
	MAX_NCCL = 12,
	MAX_LOST = 4,
	NAME_AT = 31,
	NAME_WIDTH = 47
};

#define MUCH_IDLE_FRAC 0.1 /* of a step */

static void print_line(FILE *out, const char *name, const char *text)
{
	fprintf(out, "  %-18s ", name);
	lw_print_wrapped(out, 21, 21, text);
}

static void print_paragraph(FILE *out, const char *text)
{
	fputs("  ", out);
	lw_print_wrapped(out, 2, 2, text);
}

static void print_rank(FILE *out, const struct lw_gpu_rank_figures *rank)
{
	const double ns[] = {rank->compute_ns.value, rank->comm_ns.value, rank->hidden_ns.value,
		rank->exposed_ns.value, rank->copy_ns.value, rank->idle_ns.value};
	char text[LW_UNIT_TEXT_BYTES];

	fprintf(out, "  %4d", rank->rank);
	for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++)
		fprintf(out, " %10s", lw_ns_or_unknown(ns[i], text));
	fputc('\n', out);
}

static void print_ranks(FILE *out, const struct lw_run *run, const struct lw_gpu_summary *summary,
	int32_t only_rank)
{
	const struct lw_gpu_rank_figures *rank;
	size_t n = 0, n_steps = summary->ranks.n ? summary->ranks.at[0].n_steps : 0;

	if (!summary->ranks.n)
		return;
	if (n_steps)
		fprintf(out,
			"GPU (kernels alone; mean of %zu step%s; compute + exposed + idle = step)\n",
			n_steps, n_steps == 1 ? "" : "s");
	else
		fputs("GPU (kernels alone; from the first of a rank to its last)\n", out);
	fprintf(out, "  %4s %10s %10s %10s %10s %10s %10s\n", "rank", "compute", "comm", "hidden",
		"exposed", "copies", "idle");
	lw_vec_foreach (rank, &summary->ranks)
		if (only_rank == LW_NONE ? n++ < MAX_RANKS : only_rank == rank->rank)
			print_rank(out, rank);
	if (only_rank == LW_NONE && n > MAX_RANKS)
		fprintf(out, "  ... and %zu more ranks (--json has all)\n", n - MAX_RANKS);
	print_paragraph(out,
		"comm: a kernel of NCCL runs, where it waits for other ranks, too; hidden: a kernel that computes runs as well; copies: whatever else goes on; idle: neither computes nor communicates.");
	if (lw_gpu_has_several(run))
		print_paragraph(out,
			"Several GPUs of a rank count as one, here and above: what one of them computes hides what another communicates, and one that idles beside another that does not is not seen.");
	fputc('\n', out);
}

/* What tells kernels of one template apart stands behind it: two lines, where one does not hold it. */
static void print_name(FILE *out, const char *name)
{
	char read[LW_KERNEL_TEXT_BYTES];
	size_t n = strlen(lw_kernel_text(name, read)), first = n;

	if (n > NAME_WIDTH)
		for (first = NAME_WIDTH; first > 1 && read[first] != ' ';)
			first--;
	if (first <= 1)
		first = NAME_WIDTH; /* one word */
	fprintf(out, "%.*s\n", (int)first, read);
	if (first == n)
		return;
	n -= first;
	fprintf(out, "%*s%.*s%s\n", NAME_AT - (read[first] == ' '), "",
		n > NAME_WIDTH ? NAME_WIDTH - 2 : NAME_WIDTH, read + first,
		n > NAME_WIDTH ? ".." : "");
}

static void print_kernels(FILE *out, const struct lw_gpu_summary *summary)
{
	char text[LW_UNIT_TEXT_BYTES];

	if (!summary->kernels.n)
		return;
	fprintf(out, "Kernels that took most, of %zu name%s, all ranks\n", summary->kernels.n,
		summary->kernels.n == 1 ? "" : "s");
	fprintf(out, "  %8s %10s %7s  %s\n", "n", "total", "share", "kernel");
	for (size_t i = 0; i < summary->kernels.n && i < MAX_KERNELS; i++) {
		const struct lw_gpu_name *name = summary->kernels.at[i];

		fprintf(out, "  %8llu %10s %5.1f %%  ", (unsigned long long)name->n,
			lw_ns_format((double)name->total_ns, text), 100 * name->share_frac);
		print_name(out, name->name);
	}
	if (summary->kernels.n > MAX_KERNELS)
		fprintf(out, "  ... and %zu more (--json has all, with their whole names)\n",
			summary->kernels.n - MAX_KERNELS);
	fputc('\n', out);
}

static void print_nccl(FILE *out, const struct lw_gpu_summary *summary)
{
	const struct lw_gpu_nccl *row;
	char text[4][LW_UNIT_TEXT_BYTES];
	bool is_matched = true, is_timed = false;

	if (!summary->nccl.n)
		return;
	fputs("NCCL, all ranks\n", out);
	fprintf(out, "  %-13s %-9s %-6s %6s %9s %9s %9s %9s\n", "operation", "algorithm", "proto",
		"n", "bytes", "kernel", "algbw", "busbw");
	lw_vec_foreach (row, &summary->nccl) {
		is_matched &= !row->n_timed || row->is_matched;
		is_timed |= row->n_timed > 0;
		if (row - summary->nccl.at >= MAX_NCCL)
			continue;
		fprintf(out, "  %-13s %-9.9s %-6s %6llu %9s %9s %9s %9s\n",
			lw_nccl_op_name(row->op),
			row->algorithm ? lw_nccl_algorithm_name(row->algorithm) : "?",
			row->protocol ? lw_nccl_protocol_name(row->protocol) : "?",
			(unsigned long long)row->n, lw_bytes_or_unknown(row->bytes.value, text[0]),
			lw_ns_or_unknown(row->kernel_ns.value, text[1]),
			lw_rate_or_unknown(row->algbw_bytes_per_s.value, text[2]),
			lw_rate_or_unknown(row->busbw_bytes_per_s.value, text[3]));
	}
	if (summary->nccl.n > MAX_NCCL)
		fprintf(out, "  ... and %zu more (--json has all)\n", summary->nccl.n - MAX_NCCL);
	if (!is_timed)
		print_paragraph(out, "algbw, busbw: not known, no kernel of them was recorded.");
	else
		print_paragraph(out,
			is_matched
				? "bytes, kernel: means. algbw, busbw: as nccl-tests has them, by the kernel of the rank that came last and so waited for no other."
				: "bytes, kernel: means. algbw, busbw: as nccl-tests has them; of operations that are not in the run on all ranks, waiting for other ranks counts as time: at least.");
	fputc('\n', out);
}

static void print_place(FILE *out, const struct lw_run *run, const struct lw_gpu_lost *lost)
{
	char text[2][LW_UNIT_TEXT_BYTES], step[16] = "-";
	double wait_ns = lw_summary_known(lw_gpu_lost_wait_ns(run, lost));

	if (lost->step != LW_NONE)
		snprintf(step, sizeof(step), "%d", lost->step);
	fprintf(out, "  %4d %5s %8.3f ms %10s %10s  %.30s\n", lw_run_rank_number(run, lost->rank),
		step,
		(double)lw_run_since_ns(run, &run->ranks.at[lost->rank], lost->start_ns) / 1e6,
		lw_ns_or_unknown(wait_ns, text[0]), lw_ns_format((double)lost->exposed_ns, text[1]),
		lw_gpu_lost_call(run, lost));
}

static void print_lost(FILE *out, const struct lw_run *run, const struct lw_gpu_summary *summary)
{
	char text[LW_GPU_TEXT_BYTES], most_ns[LW_UNIT_TEXT_BYTES];
	const struct lw_gpu_rank_figures *rank, *most = NULL;

	lw_vec_foreach (rank, &summary->ranks)
		if (rank->sync_lost_ns.value > 0 &&
			(!most || rank->sync_lost_ns.value > most->sync_lost_ns.value))
			most = rank;
	if (!most)
		return;
	fputs("Overlap lost to synchronisation\n", out);
	snprintf(text, sizeof(text),
		"rank %d most: up to %s%s of its exposed communication could have been hidden, had the host not waited for the device before it launched what computes next; %llu places on all ranks%s, the longest (at: since the run begins, as the timeline's ruler has it):",
		most->rank, lw_ns_format(most->sync_lost_ns.value, most_ns),
		most->n_steps ? " a step" : "", (unsigned long long)run->gpu.n_lost,
		most->n_steps ? " in steps that count" : "");
	print_paragraph(out, text);
	fprintf(out, "  %4s %5s %11s %10s %10s  %s\n", "rank", "step", "at", "waited", "exposed",
		"in the call");
	for (size_t i = 0; i < run->gpu.lost.n && i < MAX_LOST; i++)
		print_place(out, run, &run->gpu.lost.at[i]);
	if (run->gpu.lost.n)
		print_paragraph(out, lw_gpu_lost_text(run, &run->gpu.lost.at[0], text));
	fputc('\n', out);
}

static void print_sources(FILE *out, const struct lw_run *run)
{
	char text[LW_GPU_TEXT_BYTES];
	const struct lw_diag *diag;

	fputs("Who told of GPUs and NCCL\n", out);
	for (size_t i = 0; lw_gpu_source_text(run, i, text); i++) {
		char *rest = strchr(text, ':');

		*rest = 0;
		print_line(out, text, rest + 2);
	}
	if (*lw_gpu_nccl_told(run, text))
		print_line(out, "operations of NCCL", text);
	lw_vec_foreach (diag, &run->diags)
		if (!strcmp(diag->stage, "loss") &&
			(strstr(diag->text, "cupti") || strstr(diag->text, "nccl") ||
				strstr(diag->text, "nvtx")))
			print_line(out, "lost", diag->text);
	fputc('\n', out);
}

const char *lw_gpu_idle_text(const struct lw_run *run, char text[LW_GPU_TEXT_BYTES])
{
	double idle_ns = 0, whole_ns = 0;
	char unit[2][LW_UNIT_TEXT_BYTES];
	struct lw_gpu_summary summary;
	const struct lw_gpu_rank_figures *rank;
	bool has_steps = lw_gpu_is_time(run);
	size_t n = 0;

	text[0] = 0;
	if (run->gpu.has_kernels) {
		if (lw_gpu_sum_ranks(run, &summary) < 0)
			summary.ranks.n = 0; /* no memory: nothing is said */
		lw_vec_foreach (rank, &summary.ranks)
			if ((rank->n_steps > 0) == has_steps && !isnan(rank->idle_ns.value)) {
				idle_ns += rank->idle_ns.value;
				whole_ns += rank->whole_ns;
				n++;
			}
		lw_gpu_summary_done(&summary);
	}
	if (n && idle_ns >= MUCH_IDLE_FRAC * whole_ns)
		snprintf(text, LW_GPU_TEXT_BYTES,
			"Idle GPU: for %s of the %s%s (%.0f %%) the GPU of a rank neither computes nor communicates.",
			lw_ns_format(idle_ns / (double)n, unit[0]), has_steps ? "mean " : "",
			lw_ns_format(whole_ns / (double)n, unit[1]), 100 * idle_ns / whole_ns);
	return text;
}

/* The program used CUDA, so that no GPU is seen wants a word. */
static bool is_cupti_asked(const struct lw_run *run)
{
	const struct lw_told *told;

	lw_vec_foreach (told, &run->told)
		if (!strcmp(told->name, "cupti"))
			return true;
	return false;
}

void lw_gpu_text(const struct lw_run *run, int32_t only_rank, FILE *out)
{
	struct lw_gpu_summary summary;

	if (!lw_gpu_is_there(run)) {
		if (is_cupti_asked(run))
			print_sources(out, run);
		return;
	}
	if (lw_gpu_summarize(run, &summary) == LW_OK) {
		print_ranks(out, run, &summary, only_rank);
		print_kernels(out, &summary);
		print_nccl(out, &summary);
		lw_gpu_proxies_text(run, only_rank, out);
		print_lost(out, run, &summary);
		lw_gpu_devices_text(run, out);
		print_sources(out, run);
	}
	lw_gpu_summary_done(&summary);
}
