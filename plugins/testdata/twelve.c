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
	for (uint32_t i = 0; i < 12 && i + 2 < len; i++) w[i] = (float)text[i];
	return KVASIR_STATUS_OK;
}

KVASIR_SCORE_EACH(b, c) {
	kvasir_num waiting = kvasir_col(c, 7);
	/* Summed as a tree: a chain of twelve additions is bound by latency. */
	kvasir_num x = (kvasir_col(c, 0) * w[0] + kvasir_col(c, 1) * w[1]) + (kvasir_col(c, 2) * w[2] + kvasir_col(c, 3) * w[3]);
	kvasir_num y = (kvasir_col(c, 4) * w[4] + kvasir_col(c, 5) * w[5]) + (kvasir_col(c, 6) * w[6] - waiting / (waiting + w[7]));
	kvasir_num z = (kvasir_col(c, 8) * w[8] + kvasir_col(c, 9) * w[9]) + kvasir_col(c, 10) * w[10];
	return ((x + y) + z) * kvasir_col(c, 11);
}
