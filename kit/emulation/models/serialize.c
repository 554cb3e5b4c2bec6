#include "serialize.h"

void hsp_state_put(struct hsp_state *state, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++, state->at++)
		if (state->at < state->size)
			state->to[state->at] = (uint8_t)(value >> (8 * i));
}

uint64_t hsp_state_get(struct hsp_state *state, unsigned bytes)
{
	uint64_t value = 0;

	if (state->failed || state->size - state->at < bytes) {
		state->failed = 1;
		return 0;
	}
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)state->from[state->at++] << (8 * i);
	return value;
}

uint64_t hsp_state_get_upto(struct hsp_state *state, unsigned bytes, uint64_t max)
{
	uint64_t value = hsp_state_get(state, bytes);

	if (value > max) {
		state->failed = 1;
		return 0;
	}
	return value;
}

uint64_t hsp_state_digest(const void *bytes, size_t size)
{
	const uint8_t *byte = bytes;
	uint64_t digest = UINT64_C(0xCBF29CE484222325);

	for (size_t i = 0; i < size; i++)
		digest = (digest ^ byte[i]) * UINT64_C(0x100000001B3);
	return digest;
}
