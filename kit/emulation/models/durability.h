/*
 * From when on what was last written to each sector survives a power loss.
 *
 * A write to a sector whose older content a flush or FUA under way has promised counts as covered
 * by that promise: whoever undoes lost writes keeps one older content a sector, and it must never
 * be one from before a flush that was acknowledged.
 */
#ifndef HSP_DURABILITY_H
#define HSP_DURABILITY_H

#include <stdint.h>

struct hsp_safety {
	uint64_t *safe_ns; /* by sector: time, and HSP_PROMISED */
	uint64_t sectors;
};

int hsp_safety_init(struct hsp_safety *safety, uint64_t sectors); /* -1: no memory */
void hsp_safety_free(struct hsp_safety *safety);

/* Written at now_ns into a volatile cache, safe at no known time. */
void hsp_safety_lose(struct hsp_safety *safety, uint64_t now_ns, uint64_t sector, uint64_t count);

/* Safe from at_ns on, if it is not earlier; `promised` if somebody is told so. */
void hsp_safety_keep(struct hsp_safety *safety, uint64_t at_ns, int promised, uint64_t sector, uint64_t count);

/* Sectors that are safe from at_ns on, because nobody wrote them again since, are promised to be. */
void hsp_safety_promise(struct hsp_safety *safety, uint64_t at_ns, uint64_t sector, uint64_t count);

int hsp_safety_is_lost(const struct hsp_safety *safety, uint64_t now_ns, uint64_t sector);
void hsp_safety_clear(struct hsp_safety *safety);

#endif
