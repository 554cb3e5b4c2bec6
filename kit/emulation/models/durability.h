/*
 * Per sector: the time from which its newest content survives a power loss.
 *
 * A flush or FUA write in progress promises the sectors that it makes durable. A new write to such
 * a sector counts as covered by the promise: the server keeps only one older content per sector,
 * and that must never be older than an acknowledged flush.
 */
#ifndef HSP_DURABILITY_H
#define HSP_DURABILITY_H

#include <stdint.h>

struct hsp_durability {
	uint64_t *durable_ns; /* per sector: time; the highest bit marks a promise */
	uint64_t sectors;
};

int hsp_durability_init(struct hsp_durability *durability, uint64_t sectors); /* -1: no memory */
void hsp_durability_free(struct hsp_durability *durability);

/* Mark sectors as written at now_ns into a volatile cache; when they become durable is unknown. */
void hsp_durability_set_volatile(struct hsp_durability *durability, uint64_t now_ns, uint64_t sector,
				 uint64_t count);

/* Mark sectors as durable from at_ns on, if not earlier; `promised` by a flush or FUA. */
void hsp_durability_set_durable(struct hsp_durability *durability, uint64_t at_ns, int promised, uint64_t sector,
				uint64_t count);

/* Promise those of the sectors that become durable at at_ns, i.e. that were not written again since. */
void hsp_durability_promise(struct hsp_durability *durability, uint64_t at_ns, uint64_t sector, uint64_t count);

int hsp_durability_is_volatile(const struct hsp_durability *durability, uint64_t now_ns, uint64_t sector);
void hsp_durability_clear(struct hsp_durability *durability);

#endif
