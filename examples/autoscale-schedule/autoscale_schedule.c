/* autoscale-schedule: as many endpoints as the built-in loop proposes, and at
   least the number that is configured for the hour of the day. The hour one cold
   start ahead counts too, so that the machines serve when it begins.

   Config: {"hours": [24 numbers], "offset_minutes": 60}: the minimum size per
   hour, and how many minutes the local clock is ahead of UTC. */
#include "kvasir.h"

KVASIR_MANIFEST("{\"name\":\"autoscale-schedule\",\"version\":\"1.0.0\",\"abi\":\"1.0\","
                "\"roles\":{\"x_autoscale\":{},\"configure\":{}},\"state_version\":1,"
                "\"config_schema\":{\"type\":\"object\",\"required\":[\"hours\"],\"properties\":{"
                "\"hours\":{\"type\":\"array\",\"minItems\":24,\"maxItems\":24,\"items\":{\"type\":\"integer\","
                "\"minimum\":0,\"maximum\":1024}},"
                "\"offset_minutes\":{\"type\":\"integer\",\"minimum\":-1440,\"maximum\":1440}}}}")

static double hours[25], offset;

KVASIR_CONFIGURE(text, len) {
	if (kvasir_numbers(text, len, "hours", hours, 25) != 24) return KVASIR_STATUS_ERROR;
	for (int i = 0; i < 24; i++)
		if (hours[i] < 0 || hours[i] > KVASIR_MAX_SCALE_SIZE) return KVASIR_STATUS_ERROR;
	offset = 0;
	kvasir_numbers(text, len, "offset_minutes", &offset, 1);
	return offset < -1440 || offset > 1440 ? KVASIR_STATUS_ERROR : KVASIR_STATUS_OK;
}

static uint32_t hour_of(double ms) { return (uint32_t)((uint64_t)(ms / 60000 + offset) / 60 % 24); }

KVASIR_AUTOSCALE(f) {
	uint32_t now = hour_of(f->now_ms), soon = hour_of(f->now_ms + f->cold_ms);
	uint32_t hour = hours[soon] > hours[now] ? soon : now;
	uint32_t least = (uint32_t)hours[hour];
	kvasir_scale_out(f)->desired = f->desired > least ? f->desired : least;
	kvasir_scale_reason(f, f->desired > least ? "built-in, above the least size " : "least size ");
	kvasir_scale_reason_number(f, least);
	kvasir_scale_reason(f, " of hour ");
	kvasir_scale_reason_number(f, hour);
	return KVASIR_STATUS_OK;
}
