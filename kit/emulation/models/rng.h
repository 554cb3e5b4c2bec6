/* Seeded random numbers, the same on every machine: integers only, no libm. */
#ifndef HSP_RNG_H
#define HSP_RNG_H

#include <stdint.h>

struct hsp_rng {
	uint64_t state;
};

uint64_t hsp_rng_next(struct hsp_rng *rng);

/* Uniform in [0, bound); 0 for a bound of 0. `bound` is below 2^32. */
uint64_t hsp_rng_below(struct hsp_rng *rng, uint64_t bound);

/*
 * Extra time of a controller's firmware for a command, in [0, width): the product of two uniform
 * variables, so mostly small and sometimes large (mean width / 4). `width` is below 2^32.
 */
uint64_t hsp_rng_skewed(struct hsp_rng *rng, uint64_t width);

#endif
