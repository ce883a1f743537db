/* prefixfirst: the longest match wins until a queue builds up there. */
#include "kvasir.h"

KVASIR_MANIFEST(
	"{\"name\":\"prefixfirst\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"roles\":{\"score\":{"
	"\"columns\":[\"matched_ratio\",\"waiting\"],\"terms\":[\"hit\",\"queue\"],\"unit\":\"unit\"}},"
	"\"state_version\":1,\"config_schema\":{}}")

KVASIR_SCORE(b) {
	const float *hit = kvasir_f32(b, 0), *q = kvasir_f32(b, 1);
	float *out = kvasir_scores(b);
	for (uint32_t i = 0; i < b->n; i++) out[i] = 2 * hit[i] - q[i] / (q[i] + 4);
	if (kvasir_explain(b)) {
		float *t0 = kvasir_term(b, 0), *t1 = kvasir_term(b, 1);
		for (uint32_t i = 0; i < b->n; i++) {
			t0[i] = 2 * hit[i];
			t1[i] = 0 - q[i] / (q[i] + 4);
		}
	}
	return KVASIR_STATUS_OK;
}
