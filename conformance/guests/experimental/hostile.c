/* A guest with the experimental roles that misbehaves as its config says:
   {"do": n}, 1 without a config. See the cases. Built by sdk/c/build.sh. */
#include "kvasir.h"

KVASIR_MANIFEST("{\"name\":\"hostile\",\"version\":\"1\",\"abi\":\"1.0\","
                "\"roles\":{\"x_autoscale\":{},\"x_backend_parse\":{},\"x_discover\":{},\"configure\":{}},\"state_version\":1}")

static double what;

KVASIR_CONFIGURE(text, len) {
	what = 1;
	kvasir_numbers(text, len, "do", &what, 1);
	return KVASIR_STATUS_OK;
}

static volatile uint32_t sink;

static uint32_t deep(uint32_t n) {
	volatile uint32_t here[64];
	here[n % 64] = n;
	return sink == 0xfffffff ? 0 : deep(n + 1) + here[n % 64];
}

/* What every role does alike: a status, or 0 to go on. */
static uint32_t common(void) {
	switch ((int)what) {
	case 1: __builtin_trap();
	case 2:
		for (;;) sink++;
	case 3: return KVASIR_STATUS_ERROR;
	case 4: return KVASIR_STATUS_ABSTAIN;
	case 5: return KVASIR_STATUS_UNSUPPORTED;
	case 6: return deep(1);
	case 7: return 77;
	}
	return KVASIR_STATUS_OK;
}

KVASIR_AUTOSCALE(f) {
	uint32_t status = common();
	if (status != KVASIR_STATUS_OK) return status;
	kvasir_scale_result *out = kvasir_scale_out(f);
	if (what != 10) out->desired = f->desired + 1;
	kvasir_scale_reason(f, "one more");
	switch ((int)what) {
	case 11: out->desired = 1u << 31; break;
	case 12: out->hold_ms = __builtin_nan(""); break;
	case 13: out->ttl_ms = __builtin_inf(); break;
	case 14: out->ttl_ms = -1; break;
	case 15: out->nvictims = 1, kvasir_scale_victims(f)[0] = f->nnodes; break;
	case 16: out->nvictims = 1u << 31; break;
	case 17: out->reason_len = 257; break;
	case 18: kvasir_scale_pools(f)[0] = 1u << 20; break;
	case 19: /* The header is the host's to know: what it says afterwards counts for nothing. */
		__builtin_memset((void *)f, 0xff, KVASIR_SCALE_HEADER_SIZE);
		break;
	case 20: ((char *)kvasir_at(f, f->out_reason_off))[0] = 0x1b, ((char *)kvasir_at(f, f->out_reason_off))[1] = (char)0xff; break;
	case 21: out->nvictims = f->nnodes; break; /* not written */
	}
	return KVASIR_STATUS_OK;
}

static uint32_t document(const kvasir_document *d, uint32_t unit) {
	uint32_t *n = kvasir_document_count(d);
	switch ((int)what) {
	case 10: *n = KVASIR_UNWRITTEN; break;
	case 30: *n = d->out_bytes / unit + 1; break;
	case 31: *n = 1u << 31; break;
	case 32: __builtin_memset((void *)d, 0xff, KVASIR_DOCUMENT_HEADER_SIZE); break;
	}
	return KVASIR_STATUS_OK;
}

KVASIR_BACKEND_PARSE(d, text, len) {
	uint32_t status = common();
	if (status != KVASIR_STATUS_OK) return status;
	kvasir_add_figure(d, KVASIR_FIGURE_RUNNING, 2);
	kvasir_add_figure(d, 1000, len); /* a figure of a later version */
	switch ((int)what) {
	case 40: kvasir_add_figure(d, KVASIR_FIGURE_WAITING, __builtin_nan("")); break;
	case 41: kvasir_add_figure(d, KVASIR_FIGURE_WAITING, -1); break;
	case 42: kvasir_add_figure(d, KVASIR_FIGURE_WAITING, 1e18); break;
	case 43: kvasir_add_figure(d, KVASIR_FIGURE_RUNNING, 3); break;
	case 44: *kvasir_document_count(d) = 5; break; /* three of them not written */
	case 45: kvasir_add_figure(d, KVASIR_FIGURE_BLOCK_TOKENS, 1e9); break;
	}
	return document(d, sizeof(kvasir_figure));
}

KVASIR_DISCOVER(d, text, len) {
	uint32_t status = common();
	if (status != KVASIR_STATUS_OK) return status;
	kvasir_add_endpoints(d, "127.0.0.1:1\n", 12);
	if (what == 50) kvasir_add_endpoints(d, "http://169.254.169.254:80/latest", 32);
	if (what == 51) kvasir_add_endpoints(d, "http://169.254.169.254:80\n", 26);
	if (what == 52) *kvasir_document_count(d) = 0;
	if (what == 53) *kvasir_document_count(d) += 8; /* what is behind is not written */
	return document(d, 1);
}
