#include "dirty_bitmap.h"

#include <stdlib.h>
#include <string.h>

int hsp_dirty_init(struct hsp_dirty *dirty, uint64_t sectors)
{
	*dirty = (struct hsp_dirty){ .sectors = sectors };
	dirty->bits = calloc((sectors + 63) / 64, sizeof(*dirty->bits));
	return dirty->bits ? 0 : -1;
}

void hsp_dirty_free(struct hsp_dirty *dirty)
{
	free(dirty->bits);
	dirty->bits = NULL;
}

void hsp_dirty_clear(struct hsp_dirty *dirty)
{
	memset(dirty->bits, 0, (dirty->sectors + 63) / 64 * sizeof(*dirty->bits));
	dirty->count = 0;
}

uint64_t hsp_dirty_count(const struct hsp_dirty *dirty, uint64_t sector, uint64_t end)
{
	uint64_t count = 0;

	for (; dirty->count && sector < end; sector++)
		count += (uint64_t)hsp_dirty_has(dirty, sector);
	return count;
}

void hsp_dirty_add(struct hsp_dirty *dirty, uint64_t sector, uint64_t end)
{
	for (; sector < end; sector++)
		if (!hsp_dirty_has(dirty, sector)) {
			dirty->bits[sector / 64] |= UINT64_C(1) << (sector % 64);
			dirty->count++;
		}
}

void hsp_dirty_remove(struct hsp_dirty *dirty, uint64_t sector, uint64_t end)
{
	for (; dirty->count && sector < end; sector++)
		if (hsp_dirty_has(dirty, sector)) {
			dirty->bits[sector / 64] &= ~(UINT64_C(1) << (sector % 64));
			dirty->count--;
		}
}

uint64_t hsp_dirty_next(const struct hsp_dirty *dirty, uint64_t sector)
{
	uint64_t words = (dirty->sectors + 63) / 64, word = sector / 64;
	uint64_t bits = dirty->bits[word] & UINT64_MAX << (sector % 64);

	while (!bits) {
		word = word + 1 < words ? word + 1 : 0;
		bits = dirty->bits[word];
	}
	return word * 64 + (uint64_t)__builtin_ctzll(bits);
}
