#include "ftl.h"

#include <stdlib.h>

static uint32_t per_die(uint32_t pages, uint32_t dies)
{
	return (pages + dies - 1) / dies;
}

static uint64_t blocks_for(uint64_t pages, uint32_t pages_per_block)
{
	return (pages + pages_per_block - 1) / pages_per_block;
}

int hsp_ftl_init(struct hsp_ftl *ftl, uint32_t dies, uint32_t pages_per_block, uint32_t logical_pages,
		 uint32_t spare_permyriad)
{
	uint64_t user_pages = per_die(logical_pages, dies);
	uint64_t with_spare = user_pages + (user_pages * spare_permyriad + 9999) / 10000;
	uint64_t blocks = blocks_for(with_spare, pages_per_block);
	uint64_t least = blocks_for(user_pages, pages_per_block) + 1;

	/* One spare block more than user capacity: some block always has an invalid page to reclaim. */
	blocks = (blocks < least ? least : blocks) + HSP_RESERVED_BLOCKS;
	*ftl = (struct hsp_ftl){ .dies = dies, .pages_per_block = pages_per_block, .logical_pages = logical_pages };
	if (blocks * pages_per_block * dies >= HSP_NO_PAGE)
		return -1;
	ftl->blocks_per_die = (uint32_t)blocks;
	ftl->map = malloc(sizeof(*ftl->map) * logical_pages);
	ftl->owner = malloc(sizeof(*ftl->owner) * dies * blocks * pages_per_block);
	ftl->valid = calloc(dies * blocks, sizeof(*ftl->valid));
	ftl->written = calloc(dies * blocks, sizeof(*ftl->written));
	ftl->die = calloc(dies, sizeof(*ftl->die));
	if (!ftl->map || !ftl->owner || !ftl->valid || !ftl->written || !ftl->die)
		return -1;
	for (uint32_t page = 0; page < logical_pages; page++)
		ftl->map[page] = HSP_NO_PAGE;
	for (uint64_t page = 0; page < dies * blocks * pages_per_block; page++)
		ftl->owner[page] = HSP_NO_PAGE;
	for (uint32_t d = 0; d < dies; d++) {
		struct hsp_ftl_die *die = &ftl->die[d];

		die->erased = malloc(sizeof(*die->erased) * blocks);
		if (!die->erased)
			return -1;
		for (uint32_t b = 0; b < blocks; b++)
			die->erased[b] = b;
		die->erased_count = (uint32_t)blocks;
		die->active = die->victim = HSP_NO_BLOCK;
	}
	return 0;
}

void hsp_ftl_free(struct hsp_ftl *ftl)
{
	for (uint32_t d = 0; ftl->die && d < ftl->dies; d++)
		free(ftl->die[d].erased);
	free(ftl->die);
	free(ftl->written);
	free(ftl->valid);
	free(ftl->owner);
	free(ftl->map);
	*ftl = (struct hsp_ftl){ 0 };
}

/* Index of a die's block among all blocks. */
static uint32_t at(const struct hsp_ftl *ftl, uint32_t die, uint32_t block)
{
	return die * ftl->blocks_per_die + block;
}

uint32_t hsp_ftl_room(const struct hsp_ftl *ftl, uint32_t d)
{
	const struct hsp_ftl_die *die = &ftl->die[d];
	uint32_t room = die->erased_count * ftl->pages_per_block;

	return die->active == HSP_NO_BLOCK ? room :
					     room + ftl->pages_per_block - ftl->written[at(ftl, d, die->active)];
}

static void push_erased(struct hsp_ftl *ftl, uint32_t d, uint32_t block)
{
	struct hsp_ftl_die *die = &ftl->die[d];

	die->erased[(die->erased_first + die->erased_count++) % ftl->blocks_per_die] = block;
	ftl->written[at(ftl, d, block)] = 0;
}

static uint32_t pop_erased(struct hsp_ftl *ftl, uint32_t d)
{
	struct hsp_ftl_die *die = &ftl->die[d];
	uint32_t block = die->erased[die->erased_first];

	die->erased_first = (die->erased_first + 1) % ftl->blocks_per_die;
	die->erased_count--;
	return block;
}

void hsp_ftl_unmap(struct hsp_ftl *ftl, uint32_t page)
{
	uint32_t old = ftl->map[page];

	if (old == HSP_NO_PAGE)
		return;
	ftl->map[page] = HSP_NO_PAGE;
	ftl->owner[old] = HSP_NO_PAGE;
	ftl->valid[old / ftl->pages_per_block]--;
	ftl->die[hsp_ftl_die_of(ftl, page)].mapped--;
	ftl->mapped--;
}

void hsp_ftl_place(struct hsp_ftl *ftl, uint32_t page)
{
	uint32_t d = hsp_ftl_die_of(ftl, page);
	struct hsp_ftl_die *die = &ftl->die[d];
	uint32_t block, to;

	hsp_ftl_unmap(ftl, page);
	if (die->active == HSP_NO_BLOCK)
		die->active = pop_erased(ftl, d);
	block = at(ftl, d, die->active);
	to = block * ftl->pages_per_block + ftl->written[block]++;
	ftl->map[page] = to;
	ftl->owner[to] = page;
	ftl->valid[block]++;
	die->mapped++;
	ftl->mapped++;
	if (ftl->written[block] == ftl->pages_per_block)
		die->active = HSP_NO_BLOCK;
}

uint32_t hsp_ftl_collect(struct hsp_ftl *ftl, uint32_t d)
{
	struct hsp_ftl_die *die = &ftl->die[d];
	uint32_t first = at(ftl, d, 0), fewest = ftl->pages_per_block;

	if (die->victim != HSP_NO_BLOCK)
		return ftl->valid[first + die->victim];
	for (uint32_t b = 0; b < ftl->blocks_per_die; b++)
		if (ftl->written[first + b] == ftl->pages_per_block && ftl->valid[first + b] < fewest) {
			fewest = ftl->valid[first + b];
			die->victim = b;
		}
	die->victim_page = 0;
	return fewest;
}

uint32_t hsp_ftl_next_copy(struct hsp_ftl *ftl, uint32_t d)
{
	struct hsp_ftl_die *die = &ftl->die[d];
	const uint32_t *owner = &ftl->owner[(uint64_t)at(ftl, d, die->victim) * ftl->pages_per_block];

	while (die->victim_page < ftl->pages_per_block) {
		if (owner[die->victim_page] != HSP_NO_PAGE)
			return owner[die->victim_page];
		die->victim_page++;
	}
	return HSP_NO_PAGE;
}

void hsp_ftl_erase_victim(struct hsp_ftl *ftl, uint32_t d)
{
	push_erased(ftl, d, ftl->die[d].victim);
	ftl->die[d].victim = HSP_NO_BLOCK;
}

uint32_t hsp_ftl_erase_all(struct hsp_ftl *ftl, uint32_t d)
{
	struct hsp_ftl_die *die = &ftl->die[d];
	uint32_t first = at(ftl, d, 0), erased = 0;

	for (uint32_t b = 0; b < ftl->blocks_per_die; b++)
		if (ftl->written[first + b] && !ftl->valid[first + b]) {
			if (die->active == b)
				die->active = HSP_NO_BLOCK;
			if (die->victim == b)
				die->victim = HSP_NO_BLOCK;
			push_erased(ftl, d, b);
			erased++;
		}
	return erased;
}

void hsp_ftl_save(const struct hsp_ftl *ftl, struct hsp_state *state)
{
	for (uint32_t page = 0; page < ftl->logical_pages; page++)
		hsp_state_put(state, ftl->map[page], 4);
	for (uint32_t b = 0; b < ftl->dies * ftl->blocks_per_die; b++)
		hsp_state_put(state, ftl->written[b], 2);
	for (uint32_t d = 0; d < ftl->dies; d++) {
		const struct hsp_ftl_die *die = &ftl->die[d];

		hsp_state_put(state, die->active, 4);
		hsp_state_put(state, die->victim, 4);
		hsp_state_put(state, die->erased_count, 4);
		for (uint32_t i = 0; i < die->erased_count; i++)
			hsp_state_put(state, die->erased[(die->erased_first + i) % ftl->blocks_per_die], 4);
	}
}

static void load_map(struct hsp_ftl *ftl, struct hsp_state *state)
{
	uint64_t pages_per_die = (uint64_t)ftl->blocks_per_die * ftl->pages_per_block;

	for (uint32_t page = 0; page < ftl->logical_pages; page++) {
		uint32_t to = (uint32_t)hsp_state_get(state, 4), d = hsp_ftl_die_of(ftl, page);

		if (to == HSP_NO_PAGE)
			continue;
		if (to / pages_per_die != d || ftl->owner[to] != HSP_NO_PAGE) {
			state->failed = 1;
			return;
		}
		ftl->map[page] = to;
		ftl->owner[to] = page;
		ftl->valid[to / ftl->pages_per_block]++;
		ftl->die[d].mapped++;
		ftl->mapped++;
	}
}

/* Load the block numbers of a die; they must be consistent with the pages written to its blocks. */
static void load_die(struct hsp_ftl *ftl, struct hsp_state *state, uint32_t d)
{
	struct hsp_ftl_die *die = &ftl->die[d];
	uint16_t *written = &ftl->written[at(ftl, d, 0)];
	uint32_t erased = 0, taken = 0;

	die->active = (uint32_t)hsp_state_get(state, 4);
	die->victim = (uint32_t)hsp_state_get(state, 4);
	die->erased_count = (uint32_t)hsp_state_get_upto(state, 4, ftl->blocks_per_die);
	die->erased_first = 0;
	for (uint32_t b = 0; b < ftl->blocks_per_die; b++) {
		erased += !written[b];
		if (written[b] && written[b] < ftl->pages_per_block && b != die->active)
			state->failed = 1;
	}
	if (die->active != HSP_NO_BLOCK &&
	    (die->active >= ftl->blocks_per_die || !written[die->active] ||
	     written[die->active] == ftl->pages_per_block))
		state->failed = 1;
	if (die->victim != HSP_NO_BLOCK &&
	    (die->victim >= ftl->blocks_per_die || written[die->victim] != ftl->pages_per_block))
		state->failed = 1;
	if (die->erased_count != erased)
		state->failed = 1;
	for (; taken < die->erased_count && !state->failed; taken++) {
		uint32_t block = (uint32_t)hsp_state_get_upto(state, 4, ftl->blocks_per_die - 1);

		if (written[block]) /* not erased, or listed twice */
			state->failed = 1;
		die->erased[taken] = block;
		written[block] = UINT16_MAX;
	}
	for (uint32_t i = 0; i < taken; i++)
		written[die->erased[i]] = 0;
}

void hsp_ftl_load(struct hsp_ftl *ftl, struct hsp_state *state)
{
	load_map(ftl, state);
	for (uint32_t b = 0; b < ftl->dies * ftl->blocks_per_die && !state->failed; b++)
		ftl->written[b] = (uint16_t)hsp_state_get_upto(state, 2, ftl->pages_per_block);
	for (uint32_t page = 0; page < ftl->logical_pages && !state->failed; page++) {
		uint32_t to = ftl->map[page];

		if (to != HSP_NO_PAGE && to % ftl->pages_per_block >= ftl->written[to / ftl->pages_per_block])
			state->failed = 1;
	}
	for (uint32_t d = 0; d < ftl->dies && !state->failed; d++)
		load_die(ftl, state, d);
}
