/* A scorer of twelve columns with a weight each and one saturating term, for
   the benchmark beside native Go. The weights come from memory, as those of a
   plugin with a config do. */
#include "kvasir.h"

KVASIR_MANIFEST(
	"{\"name\":\"twelve\",\"version\":\"1\",\"abi\":\"1.0\",\"roles\":{\"score\":{\"columns\":["
	"\"matched_tokens\",\"matched_ratio\",\"uncached_tokens\",\"outstanding_uncached_tokens\",\"inflight\",\"kv_active_tokens\","
	"\"running\",\"waiting\",\"kv_usage\",\"index_trust\",\"age_ms\",\"speed\"]},\"configure\":{}}}")

static float w[12] = {0.5f, 2, -0.25f, -0.125f, -3, -0.01f, -1.5f, 4, -8, 4, -0.001f, 1};

KVASIR_CONFIGURE(text, len) {
	if (len > 2) w[0] = (float)text[0];
	return KVASIR_STATUS_OK;
}

KVASIR_SCORE(b) {
	const float *c0 = kvasir_f32(b, 0), *c1 = kvasir_f32(b, 1), *c2 = kvasir_f32(b, 2), *c3 = kvasir_f32(b, 3);
	const float *c4 = kvasir_f32(b, 4), *c5 = kvasir_f32(b, 5), *c6 = kvasir_f32(b, 6), *c7 = kvasir_f32(b, 7);
	const float *c8 = kvasir_f32(b, 8), *c9 = kvasir_f32(b, 9), *c10 = kvasir_f32(b, 10), *c11 = kvasir_f32(b, 11);
	float w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3], w4 = w[4], w5 = w[5], w6 = w[6], w7 = w[7], w8 = w[8], w9 = w[9], w10 = w[10];
	float *restrict out = kvasir_scores(b);
	for (uint32_t i = 0, n = b->n; i < n; i++) {
		/* Summed as a tree: a chain of twelve additions is bound by latency. */
		float a = (c0[i] * w0 + c1[i] * w1) + (c2[i] * w2 + c3[i] * w3);
		float d = (c4[i] * w4 + c5[i] * w5) + (c6[i] * w6 - c7[i] / (c7[i] + w7));
		float e = (c8[i] * w8 + c9[i] * w9) + c10[i] * w10;
		float s = (a + d) + e;
		out[i] = s * c11[i];
	}
	return KVASIR_STATUS_OK;
}
