/* learned-rate: a plugin that learns. observe runs on one instance, receives the
   outcomes of requests and publishes a column. score runs on other instances and
   reads it like any column. Instances share no memory: the column is the only
   connection between them. */
#include "kvasir.h"

KVASIR_MANIFEST(
	"{\"name\":\"learned-rate\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"roles\":{"
	"\"observe\":{\"columns\":[\"endpoint_row\",\"prompt_tokens\",\"cached_tokens\",\"ttft_ms\"]},"
	"\"score\":{\"columns\":[\"learned-rate/tokens_per_ms\",\"uncached_tokens\",\"outstanding_uncached_tokens\"],"
	"\"terms\":[\"wait_ms\"],\"unit\":\"unit\"}},"
	"\"publishes\":[{\"name\":\"learned-rate/tokens_per_ms\",\"default\":10}],\"state_version\":1,\"config_schema\":{}}")

/* By slot of the endpoint: the endpoint's id, and its rate in tokens/ms. */
static struct {
	uint32_t id;
	float rate;
} learned[1 << KVASIR_ENDPOINT_SLOT_BITS];

KVASIR_OBSERVE(b) {
	const uint32_t *row = kvasir_u32(b, 0), *id = kvasir_endpoints(b);
	const float *prompt = kvasir_f32(b, 1), *cached = kvasir_f32(b, 2), *ttft = kvasir_f32(b, 3);
	float *out = kvasir_published(b, 0);
	for (uint32_t i = 0; i < b->n; i++) {
		float work = prompt[i] - (cached[i] > 0 ? cached[i] : 0);
		if (row[i] >= b->nslots || ttft[i] <= 0 || work < 64) continue;
		uint32_t e = id[row[i]], slot = e & ((1u << KVASIR_ENDPOINT_SLOT_BITS) - 1);
		float rate = work / ttft[i];
		if (learned[slot].id != e || learned[slot].rate == 0) {
			learned[slot].id = e;
			learned[slot].rate = rate;
		} else {
			learned[slot].rate += 0.1f * (rate - learned[slot].rate);
		}
		out[row[i]] = learned[slot].rate; /* rows that are not written keep their value */
	}
	return KVASIR_STATUS_OK;
}

KVASIR_SCORE(b) {
	const float *rate = kvasir_f32(b, 0), *own = kvasir_f32(b, 1), *before = kvasir_f32(b, 2);
	float *out = kvasir_scores(b);
	for (uint32_t i = 0; i < b->n; i++) out[i] = -(own[i] + before[i]) / (rate[i] > 0.01f ? rate[i] : 0.01f);
	if (kvasir_explain(b)) {
		float *t = kvasir_term(b, 0);
		for (uint32_t i = 0; i < b->n; i++) t[i] = out[i];
	}
	return KVASIR_STATUS_OK;
}
