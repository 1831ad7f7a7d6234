/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_gpu_details.c - what is said of the selected kernel or copy, and all of them as CSV. */
#include <errno.h>
#include <string.h>

#include "analyzer/kernel_text.h"
#include "analyzer/reconstruct/nccl_words.h"
#include "base/units.h"
#include "tui/timeline.h"

struct subject { /* what is selected, and what it hangs together with */
	const struct lw_run *run;
	const struct lw_rank *rank;
	const struct lw_kernel *kernel; /* NULL: a copy */
	const struct lw_copy *copy;     /* NULL: a kernel */
	const struct lw_gpu_stream *stream;
	const struct lw_gpu_launch *launch; /* NULL: not recorded */
	const struct lw_nccl_call *nccl_op; /* NULL: of none */
	int64_t start_ns, end_ns;
};

static struct subject subject_of(const struct lw_run *run, size_t r, struct lw_timeline_item item)
{
	const struct lw_gpu_rank *gpu = &run->ranks.at[r].gpu;
	struct subject s = {.run = run, .rank = &run->ranks.at[r]};
	int32_t launch;
	uint32_t stream;

	if (item.is_copy) {
		s.copy = &gpu->copies.at[item.index];
		s.start_ns = s.copy->start_ns;
		s.end_ns = s.copy->end_ns;
		launch = s.copy->launch;
		stream = s.copy->stream;
	} else {
		s.kernel = &gpu->kernels.at[item.index];
		s.start_ns = s.kernel->start_ns;
		s.end_ns = s.kernel->end_ns;
		launch = s.kernel->launch;
		stream = s.kernel->stream;
		if (s.kernel->nccl_op != LW_NONE)
			s.nccl_op = &gpu->nccl_ops.at[s.kernel->nccl_op];
	}
	s.stream = stream < gpu->streams.n ? &gpu->streams.at[stream] : NULL;
	s.launch = launch == LW_NONE ? NULL : &gpu->launches.at[launch];
	return s;
}

static const char *name_of(const struct subject *s, char text[LW_KERNEL_TEXT_BYTES])
{
	if (s->copy) {
		snprintf(text, LW_KERNEL_TEXT_BYTES, "%s%s",
			s->copy->op == LW_COPY_MEMSET ? "" : "copy ", lw_copy_op_name(s->copy->op));
		return text;
	}
	return lw_kernel_text(s->run->gpu.names.at[s->kernel->name].name, text);
}

static void say_what(const struct lw_timeline *timeline, const struct subject *s, char *text)
{
	char name[LW_KERNEL_TEXT_BYTES], bytes[LW_UNIT_TEXT_BYTES];
	size_t n = lw_timeline_add(text, 0, "%.120s: ", name_of(s, name));

	if (s->copy)
		n = lw_timeline_add(text, n, "%s", lw_bytes_format((double)s->copy->bytes, bytes));
	else
		n = lw_timeline_add(text, n, "%s%s", lw_gpu_class_name(s->kernel->gpu_class),
			s->kernel->flags & LW_KERNEL_GRAPH      ? ", a whole CUDA graph"
			: s->kernel->flags & LW_KERNEL_IN_GRAPH ? ", of a CUDA graph"
								: "");
	if (s->kernel && (s->kernel->flags & LW_KERNEL_UNORDERED))
		n = lw_timeline_add(text, n, ", its end was before its start");
	if (timeline->n_in_column > 1)
		lw_timeline_add(text, n, "; 1 of %zu in this column", timeline->n_in_column);
}

static void say_when(const struct lw_timeline *timeline, const struct subject *s, char *text)
{
	int64_t origin_ns = timeline->lanes.ranks[timeline->rank].origin_ns;
	int32_t step = lw_timeline_step_at(timeline, s->start_ns - origin_ns);
	char into[LW_UNIT_TEXT_BYTES], length[LW_UNIT_TEXT_BYTES], number[LW_STEP_TEXT_BYTES];
	size_t n = lw_timeline_add(text, 0, "rank %d", s->rank->rank);

	if (s->stream)
		n = lw_timeline_add(
			text, n, ", GPU %u, stream %u", s->stream->device, s->stream->stream);
	n = lw_timeline_add(text, n, ": starts at %.3f ms",
		(double)(s->start_ns - origin_ns) / (double)LW_NS_PER_MS);
	if (step != LW_NONE)
		n = lw_timeline_add(text, n, " (%s into step %s)",
			lw_ns_format(
				(double)(s->start_ns - s->rank->steps.at[step].start_ns), into),
			lw_rank_step_text(s->rank, step, number));
	lw_timeline_add(
		text, n, ", takes %s", lw_ns_format((double)(s->end_ns - s->start_ns), length));
}

static void say_launch(const struct lw_timeline *timeline, const struct subject *s, char *text)
{
	int64_t origin_ns = timeline->lanes.ranks[timeline->rank].origin_ns;
	char before[LW_UNIT_TEXT_BYTES], length[LW_UNIT_TEXT_BYTES];
	int64_t waited_ns;
	size_t n;

	if (!s->launch) {
		lw_timeline_add(text, 0, "launched: not recorded");
		return;
	}
	waited_ns = s->start_ns - s->launch->start_ns;
	n = lw_timeline_add(text, 0, "launched by %s",
		s->launch->name != UINT32_MAX ? s->run->gpu.names.at[s->launch->name].name
					      : lw_launch_op_name(s->launch->op));
	if (s->launch->tid)
		n = lw_timeline_add(text, n, ", thread %u", s->launch->tid);
	n = lw_timeline_add(text, n, ", at %.3f ms, %s %s; the call took %s",
		(double)(s->launch->start_ns - origin_ns) / (double)LW_NS_PER_MS,
		lw_ns_format((double)(waited_ns < 0 ? -waited_ns : waited_ns), before),
		waited_ns < 0 ? "AFTER it began" : "before it began",
		lw_ns_format((double)(s->launch->end_ns - s->launch->start_ns), length));
	if (s->launch->result)
		n = lw_timeline_add(text, n, ", and failed (%u)", s->launch->result);
	lw_timeline_add(text, n, "%s",
		lw_timeline_ranges_text(
			timeline, timeline->rank, s->launch->start_ns, s->launch->tid));
}

static const char *const sources[] = {
	"the trace", "the preloaded functions", "the profiler plugin", "NVTX"};

static void say_nccl(const struct subject *s, char *text)
{
	const struct lw_nccl_call *op = s->nccl_op;
	char bytes[LW_UNIT_TEXT_BYTES];
	size_t n;

	if (!op) {
		lw_timeline_add(text, 0, "NCCL: which operation it is of was not recorded");
		return;
	}
	n = lw_timeline_add(text, 0, "NCCL %s, %s", lw_nccl_op_name(op->op),
		op->flags & LW_NCCL_NO_BYTES ? "size not known"
					     : lw_bytes_format((double)op->bytes, bytes));
	if (op->peer >= 0)
		n = lw_timeline_add(text, n, ", %s %d",
			op->op == LW_NCCL_SEND || op->op == LW_NCCL_RECV ? "peer" : "root",
			op->peer);
	if (op->algorithm || op->protocol)
		n = lw_timeline_add(text, n, ", %s %s", lw_nccl_algorithm_name(op->algorithm),
			lw_nccl_protocol_name(op->protocol));
	if (op->n_channels)
		n = lw_timeline_add(text, n, ", %u channels", op->n_channels);
	if (op->group)
		n = lw_timeline_add(text, n, ", of a group of calls");
	n = lw_timeline_add(text, n, "; told by %s",
		op->source < sizeof(sources) / sizeof(sources[0]) ? sources[op->source] : "?");
	if (op->batch != LW_NONE && s->rank->batches.at[op->batch].step != LW_NONE) {
		const struct lw_batch *batch = &s->rank->batches.at[op->batch];

		lw_timeline_add(text, n, "; batch %td of step %d",
			batch - s->rank->batches.at - s->rank->steps.at[batch->step].first_batch,
			batch->step);
	}
}

/* What the proxies of its operation sent, else received. Return: false = none did. */
static bool say_moved(const struct subject *s, bool is_send, char *text)
{
	char moved[LW_GPU_TEXT_BYTES];

	text[0] = 0;
	if (s->nccl_op)
		lw_timeline_add(text, 0, "%s",
			lw_nccl_moved_text(s->run, s->rank,
				(int32_t)(s->nccl_op - s->rank->gpu.nccl_ops.at), is_send, moved));
	return *text != 0;
}

bool lw_timeline_moved_line(const struct lw_timeline *timeline, const struct lw_batch *batch,
	size_t n, char text[LW_TIMELINE_TEXT_BYTES])
{
	const struct lw_run *run = timeline->lanes.run;
	const struct lw_rank *rank = &run->ranks.at[timeline->rank];
	struct subject s = {.run = run, .rank = rank};

	text[0] = 0;
	if (batch->nccl_op == LW_NONE)
		return false;
	s.nccl_op = &rank->gpu.nccl_ops.at[batch->nccl_op];
	if (say_moved(&s, true, text) && n == 0)
		return true;
	n -= *text != 0;
	return say_moved(&s, false, text) && n == 0;
}

/* What else ran while it did: hidden, or exposed. */
static void say_beside(const struct lw_timeline *timeline, const struct subject *s, char *text)
{
	const struct lw_gpu_tracks *tracks = &timeline->lanes.gpu.ranks[timeline->rank].all;
	int gpu_class = s->copy ? (int)LW_GPU_COPY : (int)s->kernel->gpu_class;
	int other = gpu_class == LW_GPU_COMPUTE ? LW_GPU_COMMUNICATION : LW_GPU_COMPUTE;
	char unit[2][LW_UNIT_TEXT_BYTES];
	int64_t length_ns = s->end_ns - s->start_ns, beside_ns = 0;

	if (gpu_class >= LW_GPU_N_CLASSES)
		return;
	if (length_ns > 0)
		lw_track_columns(&tracks->of[other], s->start_ns, length_ns, 1, &beside_ns);
	lw_ns_format((double)beside_ns, unit[0]);
	lw_ns_format((double)(length_ns - beside_ns), unit[1]);
	switch (gpu_class) {
	case LW_GPU_COMMUNICATION:
		lw_timeline_add(text, 0, "hidden behind computing for %s of that, exposed for %s",
			unit[0], unit[1]);
		break;
	case LW_GPU_COMPUTE:
		lw_timeline_add(text, 0, "communication runs beside it for %s of that", unit[0]);
		break;
	default:
		lw_timeline_add(text, 0, "kernels compute beside it for %s of that", unit[0]);
	}
}

bool lw_timeline_gpu_line(
	const struct lw_timeline *timeline, size_t n, char text[LW_TIMELINE_TEXT_BYTES])
{
	const struct lw_run *run = timeline->lanes.run;
	struct lw_interval span;
	struct subject s;

	text[0] = 0;
	if (!lw_timeline_item_span(timeline, &span)) {
		if (n == 0)
			snprintf(text, LW_TIMELINE_TEXT_BYTES,
				"no kernel here: . next  , before  Up, Down another lane  v collectives");
		return n == 0;
	}
	s = subject_of(run, timeline->rank, timeline->item);
	if (n >= 4 && !s.nccl_op && !(s.kernel && s.kernel->gpu_class == LW_GPU_COMMUNICATION))
		n++; /* of no operation */
	if (n >= 5 && !say_moved(&s, true, text))
		n++;
	if (n >= 6 && !say_moved(&s, false, text))
		n++;
	switch (n) {
	case 0:
		say_what(timeline, &s, text);
		return true;
	case 1:
		say_when(timeline, &s, text);
		return true;
	case 2:
		say_beside(timeline, &s, text);
		return true;
	case 3:
		say_launch(timeline, &s, text);
		return true;
	case 4:
		say_nccl(&s, text);
		return true;
	case 5:
	case 6:
		return say_moved(&s, n == 5, text);
	case 7:
		text[0] = 0;
		if (s.kernel)
			snprintf(text, LW_TIMELINE_TEXT_BYTES, "%s",
				run->gpu.names.at[s.kernel->name].name);
		return s.kernel != NULL;
	default:
		return false;
	}
}

/* ---- CSV ---------------------------------------------------------------------------------------- */

void lw_timeline_write_text(FILE *out, const char *text)
{
	fputs(",\"", out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static void write_item(const struct subject *s, int64_t origin_ns, FILE *out)
{
	const struct lw_nccl_call *op = s->nccl_op;

	fprintf(out, "%d", s->rank->rank);
	if (s->stream)
		fprintf(out, ",%u,%u,%u", s->stream->device, s->stream->context, s->stream->stream);
	else
		fputs(",,,", out);
	fprintf(out, ",%s",
		s->copy ? lw_gpu_class_name(LW_GPU_COPY) : lw_gpu_class_name(s->kernel->gpu_class));
	lw_timeline_write_text(out, s->copy ? lw_copy_op_name(s->copy->op)
					    : s->run->gpu.names.at[s->kernel->name].name);
	fprintf(out, ",%lld,%lld,", (long long)s->start_ns, (long long)s->end_ns);
	if (s->copy)
		fprintf(out, "%llu", (unsigned long long)s->copy->bytes);
	if (s->launch)
		fprintf(out, ",%u,%lld,%lld", s->launch->correlation,
			(long long)s->launch->start_ns, (long long)s->launch->end_ns);
	else
		fputs(",,,", out);
	if (op)
		fprintf(out, ",%s,%llu,%s,%s", lw_nccl_op_name(op->op),
			(unsigned long long)op->bytes,
			op->algorithm ? lw_nccl_algorithm_name(op->algorithm) : "",
			op->protocol ? lw_nccl_protocol_name(op->protocol) : "");
	else
		fputs(",,,,", out);
	fprintf(out, ",%lld,%lld\n", (long long)(s->start_ns - origin_ns),
		(long long)(s->end_ns - origin_ns));
}

int lw_timeline_gpu_write(
	const struct lw_timeline *timeline, int64_t from_ns, int64_t to_ns, FILE *out)
{
	const struct lw_run *run = timeline->lanes.run;

	fputs("rank,device,context,stream,kind,name,start_ns,end_ns,bytes,correlation,launch_start_ns,"
	      "launch_end_ns,nccl_op,nccl_bytes,algorithm,protocol,shown_start_ns,shown_end_ns\n",
		out);
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_gpu_rank *gpu = &run->ranks.at[r].gpu;
		int64_t origin_ns = timeline->lanes.ranks[r].origin_ns;

		for (size_t i = 0; i < gpu->kernels.n + gpu->copies.n; i++) {
			bool is_copy = i >= gpu->kernels.n;
			struct lw_timeline_item item = {
				true, is_copy, is_copy ? i - gpu->kernels.n : i};
			struct subject s = subject_of(run, r, item);

			if (s.start_ns < to_ns + origin_ns && s.end_ns > from_ns + origin_ns)
				write_item(&s, origin_ns, out);
		}
	}
	return ferror(out) ? lw_fail(LW_ERR_IO, "cannot write: %s", strerror(errno)) : LW_OK;
}
