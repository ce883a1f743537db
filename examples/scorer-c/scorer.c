#include "kvasir.h"

KVASIR_MANIFEST("{\"name\":\"scorer-c\",\"version\":\"0.1.0\",\"abi\":\"1.0\",\"roles\":{\"score\":"
	"{\"columns\":[\"matched_ratio\",\"waiting\"]}}}")

KVASIR_SCORE_EACH(b, c) {
	kvasir_num hit = kvasir_col(c, 0), queue = kvasir_col(c, 1);
	return 2 * hit - queue / (queue + 4);
}
