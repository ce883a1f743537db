/* autoscale-spot: the total size is that of the built-in loop; the plugin divides
   it among the pools. Pools whose machines may be taken away (spot: true) are
   filled first, as long as orders there bring machines. The other pools keep only
   a minimum, which continues to serve when the spot machines are taken away.

   Config: {"floor": 2}: the minimum number of machines in the other pools;
   default 1. */
#include "kvasir.h"

KVASIR_MANIFEST("{\"name\":\"autoscale-spot\",\"version\":\"1.0.0\",\"abi\":\"1.0\","
                "\"roles\":{\"x_autoscale\":{},\"configure\":{}},\"state_version\":1,"
                "\"config_schema\":{\"type\":\"object\",\"properties\":{\"floor\":{\"type\":\"integer\","
                "\"minimum\":0,\"maximum\":1024}}}}")

static double floor_size = 1;

KVASIR_CONFIGURE(text, len) {
	floor_size = 1;
	kvasir_numbers(text, len, "floor", &floor_size, 1);
	return floor_size < 0 || floor_size > KVASIR_MAX_SCALE_SIZE ? KVASIR_STATUS_ERROR : KVASIR_STATUS_OK;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

KVASIR_AUTOSCALE(f) {
	uint32_t desired = f->desired, own = 0, spot = 0, room = 0, pending = 0, *sizes = kvasir_scale_pools(f);
	for (uint32_t i = 0; i < f->npools; i++) {
		const kvasir_pool *p = kvasir_pool_at(f, i);
		uint32_t n = p->ready + p->pending;
		pending += p->pending;
		if (!(p->flags & KVASIR_SCALE_POOL_SPOT)) own += n;
		else if (!(p->flags & KVASIR_SCALE_POOL_BLOCKED)) spot += n, room += p->max;
	}
	if (room == 0) return KVASIR_STATUS_ABSTAIN; /* no spot machine is available: use the built-in order of pools */
	if (desired == 0) {
		kvasir_scale_out(f)->desired = 0;
		kvasir_scale_reason(f, "idle");
		return KVASIR_STATUS_OK;
	}

	/* The spot pools get as many of the wanted machines as fit, the others the rest, at least the floor. */
	uint32_t keep = (uint32_t)floor_size;
	if (desired > keep + room) keep = desired - room;
	if (desired < keep) desired = keep;
	uint32_t left = keep;
	for (uint32_t i = 0; i < f->npools; i++) {
		const kvasir_pool *p = kvasir_pool_at(f, i);
		if (p->flags & KVASIR_SCALE_POOL_SPOT) continue;
		sizes[i] = least(left, p->max);
		left -= sizes[i];
	}
	kvasir_scale_reason(f, "own ");
	kvasir_scale_reason_number(f, keep);
	kvasir_scale_reason(f, ", the rest spot");
	/* Own machines above the floor are exchanged one after the other: the router
	   orders one additional spot machine, and when that serves, the size decreases
	   again in the pool that exceeds its entry in sizes. */
	if (own > keep && own + spot == desired && spot < room && pending == 0) {
		desired++;
		kvasir_scale_reason(f, "; exchanging one");
	}
	kvasir_scale_out(f)->desired = desired;
	return KVASIR_STATUS_OK;
}
