#include "line_cache.h"

#include <stdlib.h>

static const uint32_t NONE = UINT32_MAX;

uint8_t hsp_line_mask(uint64_t line, uint64_t sector, uint64_t end)
{
	uint8_t mask = 0;

	for (unsigned i = 0; i < HSP_LINE_SECTORS; i++)
		if (line * HSP_LINE_SECTORS + i >= sector && line * HSP_LINE_SECTORS + i < end)
			mask |= (uint8_t)(1u << i);
	return mask;
}

int hsp_line_cache_init(struct hsp_line_cache *cache, uint64_t lines)
{
	*cache = (struct hsp_line_cache){ .oldest = NONE, .newest = NONE };
	if (lines >= NONE)
		return -1;
	cache->bits = calloc(lines, sizeof(*cache->bits));
	cache->older = malloc(lines * sizeof(*cache->older));
	cache->newer = malloc(lines * sizeof(*cache->newer));
	return cache->bits && cache->older && cache->newer ? 0 : -1;
}

void hsp_line_cache_free(struct hsp_line_cache *cache)
{
	free(cache->bits);
	free(cache->older);
	free(cache->newer);
}

void hsp_line_cache_clear(struct hsp_line_cache *cache)
{
	hsp_line_cache_shrink(cache, 0);
}

static void take_out(struct hsp_line_cache *cache, uint32_t line)
{
	uint32_t older = cache->older[line], newer = cache->newer[line];

	*(older == NONE ? &cache->oldest : &cache->newer[older]) = newer;
	*(newer == NONE ? &cache->newest : &cache->older[newer]) = older;
	cache->count--;
}

void hsp_line_cache_add(struct hsp_line_cache *cache, uint64_t line, uint8_t bits)
{
	uint32_t added = (uint32_t)line;

	if (!bits)
		return;
	if (cache->bits[added])
		take_out(cache, added);
	cache->bits[added] |= bits;
	cache->older[added] = cache->newest;
	cache->newer[added] = NONE;
	*(cache->newest == NONE ? &cache->oldest : &cache->newer[cache->newest]) = added;
	cache->newest = added;
	cache->count++;
}

void hsp_line_cache_remove(struct hsp_line_cache *cache, uint64_t line, uint8_t bits)
{
	if (!cache->bits[line])
		return;
	cache->bits[line] = (uint8_t)(cache->bits[line] & ~bits);
	if (!cache->bits[line])
		take_out(cache, (uint32_t)line);
}

void hsp_line_cache_shrink(struct hsp_line_cache *cache, uint64_t lines)
{
	while (cache->count > lines)
		hsp_line_cache_remove(cache, cache->oldest, 0xFF);
}
