/*
 * A bus that devices share: first come, first served, one transfer at a time, and a time for each request
 * and each byte, as the bus module of DiskSim with FCFS arbitration (J. Bucy, J. Schindler, S. Schlosser,
 * G. Ganger, The DiskSim simulation environment 4.0, CMU-PDL-08-101, 2008).
 */
#ifndef HSP_BUS_H
#define HSP_BUS_H

#include "model.h"

struct hsp_bus {
	uint64_t bytes_per_s, command_ns, free_ns;
	struct hsp_device *devices[HSP_BUS_DEVICES];
	unsigned count;
};

/* Take the bus for a transfer that is ready; returns its end. Calls come in the order of ready_ns. */
uint64_t hsp_bus_take(struct hsp_bus *bus, uint64_t ready_ns, uint64_t command_ns, uint64_t bytes);

int hsp_bus_add(struct hsp_bus *bus, struct hsp_device *device); /* -1: it is full */
void hsp_bus_remove(struct hsp_bus *bus, const struct hsp_device *device);

#endif
