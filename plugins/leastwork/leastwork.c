/* leastwork: the default cost, as host/scheduler has it natively, bit for bit.

       cost = S * (outstanding + a*new + 0.05*new*inflight + 0.1*kv_active) + delay

   in float32, every product and sum rounded. a is 2 for the objective blend,
   1 for ttft, 3 for throughput; the objective is the request's, unless the
   config names one: {"objective": "ttft"}. */
#include "kvasir.h"

KVASIR_MANIFEST(
	"{\"name\":\"leastwork\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"roles\":{\"score\":{"
	"\"columns\":[\"uncached_tokens\",\"outstanding_uncached_tokens\",\"inflight\",\"kv_active_tokens\",\"speed\","
	"\"decode_delay_tokens\"],"
	"\"request\":[\"objective\"],"
	"\"terms\":[\"outstanding\",\"own\",\"interference\",\"kv_active\",\"speed\",\"decode_delay\"],"
	"\"unit\":\"cost_tokens\"},\"configure\":{}},\"state_version\":1,"
	"\"config_schema\":{\"type\":\"object\",\"properties\":{\"objective\":{\"enum\":[\"blend\",\"ttft\",\"throughput\"]}},"
	"\"additionalProperties\":false}}")

static const float own_of[3] = {2, 1, 3}; /* by KVASIR_OBJECTIVE_… */
static const float interference = 0.05f, kv_weight = 0.1f;

static uint32_t fixed = 3; /* objective of the config, 3 = the request's */

static int has(const char *text, uint32_t len, const char *word, uint32_t n) {
	for (uint32_t i = 0; i + n <= len; i++)
		if (__builtin_memcmp(text + i, word, n) == 0) return 1;
	return 0;
}

int memcmp(const void *a, const void *b, unsigned long n) {
	const unsigned char *x = a, *y = b;
	for (; n; n--, x++, y++)
		if (*x != *y) return *x - *y;
	return 0;
}

KVASIR_CONFIGURE(text, len) {
	static const char *const words[3] = {"\"blend\"", "\"ttft\"", "\"throughput\""};
	static const uint32_t sizes[3] = {7, 6, 12};
	fixed = 3;
	for (uint32_t i = 0; i < 3; i++)
		if (has(text, len, words[i], sizes[i])) fixed = i;
	if (fixed == 3 && has(text, len, "\"objective\"", 11)) return KVASIR_STATUS_ERROR;
	return KVASIR_STATUS_OK;
}

static float own; /* of this batch */

static int choose(uint32_t objective) {
	own = own_of[objective < 3 ? objective : 0];
	return 1;
}

KVASIR_SCORE_EACH_IF(b, c, choose(fixed < 3 ? fixed : kvasir_req_u32(b, 0))) {
	kvasir_num uncached = kvasir_col(c, 0), outstanding = kvasir_col(c, 1);
	kvasir_num inflight = kvasir_col(c, 2), kv = kvasir_col(c, 3), speed = kvasir_col(c, 4);
	kvasir_num delay = kvasir_col(c, 5);
	kvasir_num mine = own * uncached, between = interference * uncached * inflight, active = kv_weight * kv;
	kvasir_set_term(c, 0, 0 - outstanding);
	kvasir_set_term(c, 1, 0 - mine);
	kvasir_set_term(c, 2, 0 - between);
	kvasir_set_term(c, 3, 0 - active);
	kvasir_set_term(c, 4, speed);
	kvasir_set_term(c, 5, 0 - delay);
	return -(speed * (outstanding + mine + between + active) + delay);
}
