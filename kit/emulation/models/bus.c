#include "bus.h"

#include <stdlib.h>

#include "impl.h"

struct hsp_bus *hsp_bus_new(uint64_t bytes_per_s, uint64_t command_ns)
{
	struct hsp_bus *bus = bytes_per_s && bytes_per_s <= HSP_MAX_BYTES_PER_S ? calloc(1, sizeof(*bus)) : NULL;

	if (bus)
		*bus = (struct hsp_bus){ .bytes_per_s = bytes_per_s, .command_ns = command_ns };
	return bus;
}

void hsp_bus_free(struct hsp_bus *bus)
{
	free(bus);
}

uint64_t hsp_bus_take(struct hsp_bus *bus, uint64_t ready_ns, uint64_t command_ns, uint64_t bytes)
{
	uint64_t needs_ns = command_ns + hsp_transfer_ns(bytes, bus->bytes_per_s);

	if (!needs_ns)
		return ready_ns;
	bus->free_ns = hsp_later(bus->free_ns, ready_ns) + needs_ns;
	return bus->free_ns;
}

int hsp_bus_add(struct hsp_bus *bus, struct hsp_device *device)
{
	if (bus->count == HSP_BUS_DEVICES)
		return -1;
	bus->devices[bus->count++] = device;
	return 0;
}

void hsp_bus_remove(struct hsp_bus *bus, const struct hsp_device *device)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < bus->count; i++)
		if (bus->devices[i] != device)
			bus->devices[kept++] = bus->devices[i];
	bus->count = kept;
}
