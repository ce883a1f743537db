/* A scorer that uses every helper for scorers that are written for one candidate. */
#include "kvasir.h"

KVASIR_MANIFEST(
	"{\"name\":\"each\",\"version\":\"1\",\"abi\":\"1.0\",\"roles\":{\"score\":{\"columns\":[\"waiting\","
	"\"matched_ratio\",\"endpoint_id\"],"
	"\"request\":[\"objective\"],\"terms\":[\"slot\",\"load\"]}}}")

static float bonus;

static int ready(const kvasir_batch *b) {
	bonus = (float)kvasir_req_u32(b, 0);
	return b->n != 14;
}

KVASIR_SCORE_EACH_IF(b, c, ready(b)) {
	kvasir_num waiting = kvasir_col(c, 0), hit = kvasir_col(c, 1);
	kvasir_num slot = kvasir_float(kvasir_col_u32(c, 2) & 4095);
	kvasir_num load = kvasir_max(kvasir_min(waiting, kvasir_all(20)), kvasir_all(3));
	kvasir_set_term(c, 0, slot);
	kvasir_set_term(c, 1, load);
	return kvasir_if(hit > 0.5f, hit * bonus, 0 - load) + 2 * slot + (float)b->prompt_tokens;
}
