#include "nand.h"

#include <stdlib.h>

/* A die collects garbage while its room is at most this many blocks of pages. */
enum { LOW_BLOCKS = HSP_RESERVED_BLOCKS - 1 };

static struct hsp_channel *channel_of(struct hsp_nand *nand, uint32_t die)
{
	return &nand->channel[die % nand->channels];
}

struct run {
	uint64_t sector, count;
};

enum work { NOTHING, PROGRAM, COLLECT };

static enum work next_work(struct hsp_nand *nand, uint32_t d)
{
	struct hsp_die *die = &nand->die[d];

	if (!die->collecting)
		return die->queue.count ? PROGRAM : NOTHING;
	if (!die->queue.count || die->credit)
		return COLLECT;
	/* The valid pages left in the victim block must still have room after the program. */
	return hsp_ftl_room(&nand->ftl, d) > hsp_ftl_collect(&nand->ftl, d) ? PROGRAM : COLLECT;
}

static uint64_t start_of(struct hsp_nand *nand, uint32_t d, enum work work)
{
	struct hsp_die *die = &nand->die[d];

	return work == PROGRAM ? hsp_later(die->free_ns, nand->buffer.slot[die->queue.first].since_ns) : die->free_ns;
}

static void update_collecting(struct hsp_nand *nand, uint32_t d)
{
	struct hsp_die *die = &nand->die[d];
	int collecting = hsp_ftl_room(&nand->ftl, d) <= LOW_BLOCKS * nand->ftl.pages_per_block;

	if (collecting == die->collecting)
		return;
	die->collecting = collecting;
	die->credit = 0;
	if (collecting)
		channel_of(nand, d)->work++;
	else
		channel_of(nand, d)->work--;
}

/* Remove the first run of sectors from a mask that is not 0. */
static struct run take_run(const struct hsp_nand *nand, uint32_t page, uint64_t *mask)
{
	unsigned first = (unsigned)__builtin_ctzll(*mask);
	uint64_t rest = ~(*mask >> first);
	unsigned length = rest ? (unsigned)__builtin_ctzll(rest) : 64;

	length = length > 64 - first ? 64 - first : length;
	*mask = first + length == 64 ? 0 : *mask >> (first + length) << (first + length);
	return (struct run){ (uint64_t)page * nand->page_sectors + first, length };
}

void hsp_nand_set_durable(struct hsp_nand *nand, uint32_t page, uint64_t mask, uint64_t at_ns, int promised)
{
	while (mask) {
		struct run run = take_run(nand, page, &mask);

		hsp_durability_set_durable(&nand->durability, at_ns, promised, run.sector, run.count);
	}
}

void hsp_nand_promise(struct hsp_nand *nand, const struct hsp_slot *slot)
{
	uint64_t mask = slot->mask;

	while (mask) {
		struct run run = take_run(nand, slot->page, &mask);

		hsp_durability_promise(&nand->durability, slot->end_ns, run.sector, run.count);
	}
}

static uint64_t program_ns(struct hsp_nand *nand)
{
	return nand->program_ns + hsp_rng_below(&nand->rng, nand->program_spread_ns);
}

static void begin_program(struct hsp_nand *nand, uint32_t d, uint64_t start_ns)
{
	struct hsp_die *die = &nand->die[d];
	struct hsp_channel *channel = channel_of(nand, d);
	uint32_t number = die->queue.first;
	struct hsp_slot *slot = &nand->buffer.slot[number];
	uint64_t end_ns = hsp_later(start_ns, channel->free_ns);
	int is_first;

	hsp_buffer_remove(&nand->buffer, &die->queue, number);
	channel->work--;
	nand->queued--;
	end_ns += hsp_transfer_ns(nand->page_bytes, nand->channel_bytes_per_s);
	channel->free_ns = end_ns;
	is_first = !hsp_ftl_is_mapped(&nand->ftl, slot->page);
	if (!is_first && slot->mask != hsp_nand_full_mask(nand)) {
		end_ns += nand->read_ns; /* read-modify-write of a partial page */
		nand->counts->of[HSP_PAGES_READ]++;
	}
	end_ns += program_ns(nand);
	slot->end_ns = die->free_ns = end_ns;
	hsp_ftl_place(&nand->ftl, slot->page);
	nand->counts->of[HSP_PAGES_PROGRAMMED]++;
	hsp_buffer_begin(&nand->buffer, number);
	if (nand->first_ns) {
		if (is_first)
			nand->first_ns[slot->page] = end_ns;
		/* A program that starts in the future is never undone: a flush that comes now may rely on it. */
		hsp_nand_set_durable(nand, slot->page, slot->mask, end_ns, start_ns >= nand->now_ns);
	}
	update_collecting(nand, d);
	if (die->collecting) {
		uint32_t room = hsp_ftl_room(&nand->ftl, d), left = hsp_ftl_collect(&nand->ftl, d);

		/* Collection steps (copies and the erase) due per program, so that room does not run out. */
		die->credit = (left + 1) / (room > left ? room - left : 1) + 1;
	}
}

static void begin_collect(struct hsp_nand *nand, uint32_t d, uint64_t start_ns)
{
	struct hsp_die *die = &nand->die[d];
	uint32_t page;

	hsp_ftl_collect(&nand->ftl, d);
	page = hsp_ftl_next_copy(&nand->ftl, d);
	if (page == HSP_NO_PAGE) {
		hsp_ftl_erase_victim(&nand->ftl, d);
		nand->counts->of[HSP_BLOCKS_ERASED]++;
		die->free_ns = start_ns + nand->erase_ns;
	} else {
		hsp_ftl_place(&nand->ftl, page);
		nand->counts->of[HSP_PAGES_READ]++;
		nand->counts->of[HSP_PAGES_PROGRAMMED]++;
		nand->counts->of[HSP_PAGES_COPIED]++;
		die->free_ns = start_ns + nand->read_ns + program_ns(nand);
	}
	if (die->credit)
		die->credit--;
	update_collecting(nand, d);
}

/* The die of the channel whose next work starts first; nand->dies if no die has work. */
static uint32_t next_die(struct hsp_nand *nand, uint32_t channel, enum work *work, uint64_t *start_ns)
{
	uint32_t best = nand->dies;

	*start_ns = UINT64_MAX;
	if (!nand->channel[channel].work)
		return best;
	for (uint32_t d = channel; d < nand->dies; d += nand->channels) {
		enum work next = next_work(nand, d);
		uint64_t next_ns;

		if (next == NOTHING)
			continue;
		next_ns = start_of(nand, d, next);
		if (next_ns < *start_ns) {
			best = d;
			*work = next;
			*start_ns = next_ns;
		}
	}
	return best;
}

/* Start all work of the channel that is due before a time, in time order: the dies share the channel. */
static void run_channel(struct hsp_nand *nand, uint32_t channel, uint64_t until_ns)
{
	for (;;) {
		enum work work = NOTHING;
		uint64_t start_ns;
		uint32_t d = next_die(nand, channel, &work, &start_ns);

		if (d == nand->dies || start_ns >= until_ns)
			return;
		if (work == PROGRAM)
			begin_program(nand, d, start_ns);
		else
			begin_collect(nand, d, start_ns);
	}
}

void hsp_nand_queue(struct hsp_nand *nand, uint32_t number, uint64_t ready_ns)
{
	struct hsp_slot *slot = &nand->buffer.slot[number];
	uint32_t d = hsp_ftl_die_of(&nand->ftl, slot->page);

	hsp_buffer_remove(&nand->buffer, &nand->buffer.dirty, number);
	slot->state = HSP_SLOT_QUEUED;
	slot->since_ns = ready_ns;
	hsp_buffer_append(&nand->buffer, &nand->die[d].queue, number);
	channel_of(nand, d)->work++;
	nand->queued++;
}

void hsp_nand_advance(struct hsp_nand *nand, uint64_t now_ns)
{
	struct hsp_buffer *buffer = &nand->buffer;

	while (nand->destage_idle_ns && buffer->dirty.count) {
		uint64_t due_ns = buffer->slot[buffer->dirty.first].since_ns + nand->destage_idle_ns;

		if (due_ns > now_ns)
			break;
		hsp_nand_queue(nand, buffer->dirty.first, due_ns);
	}
	for (uint32_t channel = 0; channel < nand->channels; channel++)
		if (nand->channel[channel].work)
			run_channel(nand, channel, now_ns);
	while (buffer->heap_count && buffer->slot[buffer->heap[0]].end_ns <= now_ns) {
		const struct hsp_slot *slot = &buffer->slot[buffer->heap[0]];

		/* Released early because a write waits for a slot: a later flush does not find the slot. */
		if (nand->first_ns && slot->end_ns > nand->now_ns)
			hsp_nand_promise(nand, slot);
		hsp_buffer_release(buffer, slot->end_ns);
	}
}

uint64_t hsp_nand_read(struct hsp_nand *nand, uint32_t page, uint32_t sectors, uint64_t ready_ns)
{
	uint32_t d = hsp_ftl_die_of(&nand->ftl, page);
	struct hsp_channel *channel = channel_of(nand, d);
	uint64_t at_ns;

	run_channel(nand, d % nand->channels, ready_ns);
	at_ns = hsp_later(ready_ns, nand->die[d].free_ns) + nand->read_ns +
		hsp_rng_skewed(&nand->rng, nand->read_spread_ns);
	at_ns = hsp_later(at_ns, channel->free_ns) +
		hsp_transfer_ns((uint64_t)sectors * HSP_SECTOR_BYTES, nand->channel_bytes_per_s);
	nand->die[d].free_ns = channel->free_ns = at_ns;
	nand->counts->of[HSP_PAGES_READ]++;
	return at_ns;
}

uint64_t hsp_nand_next_event_ns(struct hsp_nand *nand)
{
	struct hsp_buffer *buffer = &nand->buffer;
	uint64_t event_ns = buffer->heap_count ? buffer->slot[buffer->heap[0]].end_ns : UINT64_MAX;

	for (uint32_t channel = 0; channel < nand->channels; channel++) {
		enum work work;
		uint64_t start_ns;

		if (next_die(nand, channel, &work, &start_ns) != nand->dies && start_ns + 1 < event_ns)
			event_ns = start_ns + 1;
	}
	return event_ns;
}

void hsp_nand_unqueue(struct hsp_nand *nand, uint32_t number)
{
	uint32_t d = hsp_ftl_die_of(&nand->ftl, nand->buffer.slot[number].page);

	hsp_buffer_remove(&nand->buffer, &nand->die[d].queue, number);
	channel_of(nand, d)->work--;
	nand->queued--;
}

/* Start the next work of a channel, whatever its time. */
static void step(struct hsp_nand *nand, uint32_t channel)
{
	enum work work = NOTHING;
	uint64_t start_ns;

	next_die(nand, channel, &work, &start_ns);
	run_channel(nand, channel, start_ns + 1);
}

void hsp_nand_unqueue_all(struct hsp_nand *nand)
{
	for (uint32_t d = nand->dies; d-- > 0;)
		while (nand->die[d].queue.count) {
			uint32_t number = nand->die[d].queue.last;

			hsp_nand_unqueue(nand, number);
			nand->buffer.slot[number].state = HSP_SLOT_DIRTY;
			hsp_buffer_prepend(&nand->buffer, &nand->buffer.dirty, number);
		}
}

void hsp_nand_force(struct hsp_nand *nand, uint32_t number, uint64_t now_ns)
{
	struct hsp_slot *slot = &nand->buffer.slot[number];
	uint32_t d = hsp_ftl_die_of(&nand->ftl, slot->page);

	if (slot->state == HSP_SLOT_DIRTY)
		hsp_nand_queue(nand, number, now_ns);
	hsp_buffer_remove(&nand->buffer, &nand->die[d].queue, number);
	hsp_buffer_prepend(&nand->buffer, &nand->die[d].queue, number);
	slot->since_ns = now_ns;
	while (slot->state == HSP_SLOT_QUEUED)
		step(nand, d % nand->channels);
}

void hsp_nand_force_all(struct hsp_nand *nand)
{
	for (uint32_t d = 0; d < nand->dies && nand->queued; d++)
		while (nand->die[d].queue.count)
			step(nand, d % nand->channels);
}

uint64_t hsp_nand_erase_all(struct hsp_nand *nand, uint64_t now_ns)
{
	uint64_t done_ns = now_ns;

	for (uint32_t d = 0; d < nand->dies; d++) {
		struct hsp_die *die = &nand->die[d];
		uint32_t erased = hsp_ftl_erase_all(&nand->ftl, d);

		if (!erased)
			continue;
		die->free_ns = hsp_later(die->free_ns, now_ns) + erased * nand->erase_ns;
		done_ns = hsp_later(done_ns, die->free_ns);
		nand->counts->of[HSP_BLOCKS_ERASED] += erased;
		update_collecting(nand, d);
	}
	return done_ns;
}

void hsp_nand_settle(struct hsp_nand *nand, uint64_t now_ns)
{
	for (uint32_t d = 0; d < nand->dies; d++) {
		nand->die[d].free_ns = now_ns;
		nand->die[d].credit = 0;
		update_collecting(nand, d);
	}
	for (uint32_t channel = 0; channel < nand->channels; channel++)
		nand->channel[channel].free_ns = now_ns;
}

int hsp_nand_init(struct hsp_nand *nand, uint64_t sectors, uint32_t pages_per_block, uint32_t spare_permyriad,
		  uint32_t slots, int is_protected)
{
	const struct hsp_slot_list empty = { HSP_NO_SLOT, HSP_NO_SLOT, 0 };
	uint64_t pages = (sectors + nand->page_sectors - 1) / nand->page_sectors;

	if (pages >= HSP_NO_PAGE ||
	    hsp_ftl_init(&nand->ftl, nand->dies, pages_per_block, (uint32_t)pages, spare_permyriad) ||
	    hsp_buffer_init(&nand->buffer, slots, (uint32_t)pages) ||
	    (!is_protected && hsp_durability_init(&nand->durability, sectors)))
		return -1;
	if (!is_protected && !(nand->first_ns = calloc(pages, sizeof(*nand->first_ns))))
		return -1;
	nand->die = calloc(nand->dies, sizeof(*nand->die));
	nand->channel = calloc(nand->channels, sizeof(*nand->channel));
	if (!nand->die || !nand->channel)
		return -1;
	for (uint32_t d = 0; d < nand->dies; d++)
		nand->die[d].queue = empty;
	return 0;
}

void hsp_nand_free(struct hsp_nand *nand)
{
	hsp_ftl_free(&nand->ftl);
	hsp_buffer_free(&nand->buffer);
	hsp_durability_free(&nand->durability);
	free(nand->first_ns);
	free(nand->die);
	free(nand->channel);
}
