#include "rng.h"

/* splitmix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014. */
uint64_t hsp_rng_next(struct hsp_rng *rng)
{
	uint64_t z = (rng->state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

uint64_t hsp_rng_below(struct hsp_rng *rng, uint64_t bound)
{
	return bound ? ((hsp_rng_next(rng) >> 32) * bound) >> 32 : 0;
}

uint64_t hsp_rng_skewed(struct hsp_rng *rng, uint64_t width)
{
	uint64_t product;

	if (!width)
		return 0;
	product = (hsp_rng_next(rng) >> 32) * (hsp_rng_next(rng) >> 32);
	return ((product >> 32) * width) >> 32;
}
