/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/answer.h"

#include <stdlib.h>

int lw_answer(struct lw_predictor *predictor, enum lw_question question,
	const struct lw_model *model, const struct lw_whatif *whatif, struct lw_answer *ret_answer)
{
	struct lw_advise_grid *grid = &ret_answer->grid;
	int status = LW_OK;
	size_t n = 1;

	*ret_answer = (struct lw_answer){
		.predictor = predictor, .question = question, .model = model, .whatif = *whatif};
	if (question == LW_ASK_GRID) {
		if (predictor->replay->is_ddp)
			return lw_fail(LW_ERR_UNSUPPORTED,
				"--grid is over fusion thresholds and cycle times; a torch DDP job has neither");
		lw_advise_grid(predictor->replay, grid);
		n = grid->n_fusion * grid->n_cycle;
	}
	ret_answer->forecasts = calloc(n, sizeof(*ret_answer->forecasts));
	if (!ret_answer->forecasts)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu predictions", n);
	for (size_t i = 0; i < n && status == LW_OK; i++) {
		struct lw_whatif one = *whatif;

		if (question == LW_ASK_GRID) {
			one.fusion_bytes = grid->fusion_bytes[i / grid->n_cycle];
			one.cycle_ns = grid->cycle_ns[i % grid->n_cycle];
		}
		status = lw_forecast(predictor, model, &one, &ret_answer->forecasts[i]);
	}
	ret_answer->n_forecasts = n;
	return status;
}

void lw_answer_done(struct lw_answer *answer)
{
	free(answer->forecasts);
}
