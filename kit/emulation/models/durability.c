#include "durability.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t PROMISED = UINT64_C(1) << 63;
static const uint64_t NO_TIME = (UINT64_C(1) << 63) - 1;

int hsp_durability_init(struct hsp_durability *durability, uint64_t sectors)
{
	durability->sectors = sectors;
	durability->durable_ns = calloc(sectors, sizeof(*durability->durable_ns));
	return durability->durable_ns ? 0 : -1;
}

void hsp_durability_free(struct hsp_durability *durability)
{
	free(durability->durable_ns);
	durability->durable_ns = NULL;
}

static int is_promised(uint64_t durable_ns, uint64_t now_ns)
{
	return (durable_ns & PROMISED) && (durable_ns & ~PROMISED) > now_ns;
}

void hsp_durability_set_volatile(struct hsp_durability *durability, uint64_t now_ns, uint64_t sector,
				 uint64_t count)
{
	for (uint64_t *time_ns = durability->durable_ns + sector, *end = time_ns + count; time_ns < end; time_ns++)
		if (!is_promised(*time_ns, now_ns))
			*time_ns = NO_TIME;
}

void hsp_durability_set_durable(struct hsp_durability *durability, uint64_t at_ns, int promised, uint64_t sector,
				uint64_t count)
{
	for (uint64_t *time_ns = durability->durable_ns + sector, *end = time_ns + count; time_ns < end; time_ns++) {
		uint64_t flags = (*time_ns & PROMISED) | (promised ? PROMISED : 0);
		uint64_t old_ns = *time_ns & ~PROMISED;

		*time_ns = (old_ns < at_ns ? old_ns : at_ns) | flags;
	}
}

void hsp_durability_promise(struct hsp_durability *durability, uint64_t at_ns, uint64_t sector, uint64_t count)
{
	for (uint64_t *time_ns = durability->durable_ns + sector, *end = time_ns + count; time_ns < end; time_ns++)
		if ((*time_ns & ~PROMISED) == at_ns)
			*time_ns |= PROMISED;
}

int hsp_durability_is_volatile(const struct hsp_durability *durability, uint64_t now_ns, uint64_t sector)
{
	return (durability->durable_ns[sector] & ~PROMISED) > now_ns;
}

void hsp_durability_clear(struct hsp_durability *durability)
{
	memset(durability->durable_ns, 0, durability->sectors * sizeof(*durability->durable_ns));
}
