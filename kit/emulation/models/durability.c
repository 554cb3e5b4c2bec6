#include "durability.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t PROMISED = UINT64_C(1) << 63;
static const uint64_t NO_TIME = (UINT64_C(1) << 63) - 1;

int hsp_safety_init(struct hsp_safety *safety, uint64_t sectors)
{
	safety->sectors = sectors;
	safety->safe_ns = calloc(sectors, sizeof(*safety->safe_ns));
	return safety->safe_ns ? 0 : -1;
}

void hsp_safety_free(struct hsp_safety *safety)
{
	free(safety->safe_ns);
	safety->safe_ns = NULL;
}

static int is_promised(uint64_t safe_ns, uint64_t now_ns)
{
	return (safe_ns & PROMISED) && (safe_ns & ~PROMISED) > now_ns;
}

void hsp_safety_lose(struct hsp_safety *safety, uint64_t now_ns, uint64_t sector, uint64_t count)
{
	for (uint64_t *safe = safety->safe_ns + sector, *end = safe + count; safe < end; safe++)
		if (!is_promised(*safe, now_ns))
			*safe = NO_TIME;
}

void hsp_safety_keep(struct hsp_safety *safety, uint64_t at_ns, int promised, uint64_t sector, uint64_t count)
{
	for (uint64_t *safe = safety->safe_ns + sector, *end = safe + count; safe < end; safe++) {
		uint64_t flags = (*safe & PROMISED) | (promised ? PROMISED : 0), time_ns = *safe & ~PROMISED;

		*safe = (time_ns < at_ns ? time_ns : at_ns) | flags;
	}
}

void hsp_safety_promise(struct hsp_safety *safety, uint64_t at_ns, uint64_t sector, uint64_t count)
{
	for (uint64_t *safe = safety->safe_ns + sector, *end = safe + count; safe < end; safe++)
		if ((*safe & ~PROMISED) == at_ns)
			*safe |= PROMISED;
}

int hsp_safety_is_lost(const struct hsp_safety *safety, uint64_t now_ns, uint64_t sector)
{
	return (safety->safe_ns[sector] & ~PROMISED) > now_ns;
}

void hsp_safety_clear(struct hsp_safety *safety)
{
	memset(safety->safe_ns, 0, safety->sectors * sizeof(*safety->safe_ns));
}
