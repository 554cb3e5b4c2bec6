/*
 * A solid state disk: what the flash translation layer and the write buffer do, and how long the
 * dies, channels, link and firmware take for it.
 *
 * Each die does one thing at a time. What waits for it (programs, and copies and erases of garbage
 * collection) is begun when time has come to it and never interrupted; a read waits for what is
 * under way, and goes before what has not begun. A flush or FUA makes dies begin what it needs at
 * once and in order, so that its end is known.
 */
#include <stdlib.h>

#include "buffer.h"
#include "ftl.h"
#include "impl.h"
#include "rng.h"
#include "safety.h"

/* A die collects while it has room for fewer than this many blocks of pages. */
enum { LOW_BLOCKS = HSP_RESERVED_BLOCKS - 1 };

struct die {
	struct hsp_slot_list queue; /* to be programmed */
	uint64_t free_ns;
	uint32_t credit; /* steps of collection that are due before the next program */
	int collecting;
};

struct channel {
	uint64_t free_ns;
	uint32_t work; /* queued slots and collecting dies */
};

struct ssd {
	struct hsp_model model;
	uint32_t channels, dies, page_bytes, page_sectors;
	uint64_t read_ns, read_spread_ns, program_ns, program_spread_ns, erase_ns;
	uint64_t channel_bytes_per_s, link_bytes_per_s;
	uint64_t serial_ns, command_ns, command_spread_ns, write_command_ns, write_command_spread_ns, flush_ns;
	uint64_t destage_idle_ns;
	uint32_t destage_at; /* dirty slots beyond these are programmed */
	int is_protected, ignores_flush;

	struct hsp_ftl ftl;
	struct hsp_buffer buffer;
	struct hsp_safety safety;
	struct hsp_rng rng;
	struct die *die;
	struct channel *channel;
	uint64_t now_ns, firmware_free_ns, link_free_ns;
	uint32_t queued;
};

static struct ssd *ssd_of(struct hsp_model *model)
{
	return (struct ssd *)model;
}

static void count(struct ssd *ssd, enum hsp_count what, uint64_t by)
{
	ssd->model.counts.of[what] += by;
}

static struct channel *channel_of(struct ssd *ssd, uint32_t die)
{
	return &ssd->channel[die % ssd->channels];
}

/* --- What a die does ------------------------------------------------------------------------- */

enum work { NOTHING, PROGRAM, COLLECT };

static enum work next_work(struct ssd *ssd, uint32_t d)
{
	struct die *die = &ssd->die[d];

	if (!die->collecting)
		return die->queue.count ? PROGRAM : NOTHING;
	if (!die->queue.count || die->credit)
		return COLLECT;
	/* What is left of the block being collected must still find room after the program. */
	return hsp_ftl_room(&ssd->ftl, d) > hsp_ftl_collect(&ssd->ftl, d) ? PROGRAM : COLLECT;
}

static uint64_t start_of(struct ssd *ssd, uint32_t d, enum work work)
{
	struct die *die = &ssd->die[d];

	return work == PROGRAM ? hsp_later(die->free_ns, ssd->buffer.slot[die->queue.first].since_ns) : die->free_ns;
}

static void watch_room(struct ssd *ssd, uint32_t d)
{
	struct die *die = &ssd->die[d];
	int collecting = hsp_ftl_room(&ssd->ftl, d) <= LOW_BLOCKS * ssd->ftl.pages_per_block;

	if (collecting == die->collecting)
		return;
	die->collecting = collecting;
	die->credit = 0;
	if (collecting)
		channel_of(ssd, d)->work++;
	else
		channel_of(ssd, d)->work--;
}

/* The sectors of a mask, run by run, are safe at a time. */
static void keep(struct ssd *ssd, uint32_t page, uint64_t mask, uint64_t at_ns, int promised)
{
	while (mask) {
		unsigned first = (unsigned)__builtin_ctzll(mask);
		uint64_t rest = ~(mask >> first);
		unsigned length = rest ? (unsigned)__builtin_ctzll(rest) : 64;

		length = length > 64 - first ? 64 - first : length;
		hsp_safety_keep(&ssd->safety, ssd->now_ns, at_ns, promised,
				(uint64_t)page * ssd->page_sectors + first, length);
		mask = first + length == 64 ? 0 : mask >> (first + length) << (first + length);
	}
}

static uint64_t full_mask(const struct ssd *ssd)
{
	return ssd->page_sectors == 64 ? UINT64_MAX : (UINT64_C(1) << ssd->page_sectors) - 1;
}

static uint64_t program_ns(struct ssd *ssd)
{
	return ssd->program_ns + hsp_rng_below(&ssd->rng, ssd->program_spread_ns);
}

static void begin_program(struct ssd *ssd, uint32_t d, uint64_t start_ns)
{
	struct die *die = &ssd->die[d];
	struct channel *channel = channel_of(ssd, d);
	uint32_t number = die->queue.first;
	struct hsp_slot *slot = &ssd->buffer.slot[number];
	uint64_t end_ns = hsp_later(start_ns, channel->free_ns);

	hsp_buffer_remove(&ssd->buffer, &die->queue, number);
	channel->work--;
	ssd->queued--;
	end_ns += hsp_transfer_ns(ssd->page_bytes, ssd->channel_bytes_per_s);
	channel->free_ns = end_ns;
	slot->is_first = !hsp_ftl_is_mapped(&ssd->ftl, slot->page);
	if (!slot->is_first && slot->mask != full_mask(ssd)) {
		end_ns += ssd->read_ns; /* the rest of the page */
		count(ssd, HSP_PAGES_READ, 1);
	}
	end_ns += program_ns(ssd);
	slot->end_ns = die->free_ns = end_ns;
	hsp_ftl_place(&ssd->ftl, slot->page);
	count(ssd, HSP_PAGES_PROGRAMMED, 1);
	hsp_buffer_begin(&ssd->buffer, number);
	if (!ssd->is_protected)
		keep(ssd, slot->page, slot->mask, end_ns, 0);
	watch_room(ssd, d);
	if (die->collecting) {
		uint32_t room = hsp_ftl_room(&ssd->ftl, d), left = hsp_ftl_collect(&ssd->ftl, d);

		/* So many copies, and the erase, as keep the distance to having no room. */
		die->credit = (left + 1) / (room > left ? room - left : 1) + 1;
	}
}

static void begin_collect(struct ssd *ssd, uint32_t d, uint64_t start_ns)
{
	struct die *die = &ssd->die[d];
	uint32_t page;

	hsp_ftl_collect(&ssd->ftl, d);
	page = hsp_ftl_next_copy(&ssd->ftl, d);
	if (page == HSP_NO_PAGE) {
		hsp_ftl_erase_victim(&ssd->ftl, d);
		count(ssd, HSP_BLOCKS_ERASED, 1);
		die->free_ns = start_ns + ssd->erase_ns;
	} else {
		hsp_ftl_place(&ssd->ftl, page);
		count(ssd, HSP_PAGES_READ, 1);
		count(ssd, HSP_PAGES_PROGRAMMED, 1);
		count(ssd, HSP_PAGES_COPIED, 1);
		die->free_ns = start_ns + ssd->read_ns + program_ns(ssd);
	}
	if (die->credit)
		die->credit--;
	watch_room(ssd, d);
}

/* Of the channel's dies the one whose next work starts first, or the number of dies: none has any. */
static uint32_t next_die(struct ssd *ssd, uint32_t channel, enum work *work, uint64_t *start_ns)
{
	uint32_t best = ssd->dies;

	*start_ns = UINT64_MAX;
	if (!ssd->channel[channel].work)
		return best;
	for (uint32_t d = channel; d < ssd->dies; d += ssd->channels) {
		enum work next = next_work(ssd, d);
		uint64_t next_ns;

		if (next == NOTHING)
			continue;
		next_ns = start_of(ssd, d, next);
		if (next_ns < *start_ns) {
			best = d;
			*work = next;
			*start_ns = next_ns;
		}
	}
	return best;
}

/* Everything that starts on the channel before a time. Dies take turns, because they share it. */
static void run_channel(struct ssd *ssd, uint32_t channel, uint64_t until_ns)
{
	for (;;) {
		enum work work = NOTHING;
		uint64_t start_ns;
		uint32_t d = next_die(ssd, channel, &work, &start_ns);

		if (d == ssd->dies || start_ns >= until_ns)
			return;
		if (work == PROGRAM)
			begin_program(ssd, d, start_ns);
		else
			begin_collect(ssd, d, start_ns);
	}
}

static void queue(struct ssd *ssd, uint32_t number, uint64_t ready_ns)
{
	struct hsp_slot *slot = &ssd->buffer.slot[number];
	uint32_t d = hsp_ftl_die_of(&ssd->ftl, slot->page);

	hsp_buffer_remove(&ssd->buffer, &ssd->buffer.dirty, number);
	slot->state = HSP_SLOT_QUEUED;
	slot->since_ns = ready_ns;
	hsp_buffer_append(&ssd->buffer, &ssd->die[d].queue, number);
	channel_of(ssd, d)->work++;
	ssd->queued++;
}

static void advance(struct ssd *ssd, uint64_t now_ns)
{
	struct hsp_buffer *buffer = &ssd->buffer;

	while (ssd->destage_idle_ns && buffer->dirty.count) {
		uint64_t due_ns = buffer->slot[buffer->dirty.first].since_ns + ssd->destage_idle_ns;

		if (due_ns > now_ns)
			break;
		queue(ssd, buffer->dirty.first, due_ns);
	}
	for (uint32_t channel = 0; channel < ssd->channels; channel++)
		if (ssd->channel[channel].work)
			run_channel(ssd, channel, now_ns);
	hsp_buffer_release(buffer, now_ns);
}

/* --- What the host asks for ------------------------------------------------------------------ */

static uint64_t admit(struct ssd *ssd, uint64_t command_ns, uint64_t spread_ns)
{
	ssd->firmware_free_ns = hsp_later(ssd->now_ns, ssd->firmware_free_ns) + ssd->serial_ns;
	return ssd->firmware_free_ns + command_ns + hsp_rng_skewed(&ssd->rng, spread_ns);
}

static uint64_t over_link(struct ssd *ssd, uint64_t ready_ns, uint64_t bytes)
{
	ssd->link_free_ns =
		hsp_later(ready_ns, ssd->link_free_ns) + hsp_transfer_ns(bytes, ssd->link_bytes_per_s);
	return ssd->link_free_ns;
}

/* The part of a request that lies in one page. */
struct part {
	uint32_t page;
	unsigned first, sectors;
	uint64_t mask;
};

static struct part part_at(const struct ssd *ssd, uint64_t sector, uint64_t end)
{
	struct part part = { .page = (uint32_t)(sector / ssd->page_sectors),
			     .first = (unsigned)(sector % ssd->page_sectors) };
	uint64_t sectors = ssd->page_sectors - part.first;

	part.sectors = (unsigned)(sectors < end - sector ? sectors : end - sector);
	part.mask = (part.sectors == 64 ? UINT64_MAX : (UINT64_C(1) << part.sectors) - 1) << part.first;
	return part;
}

static uint64_t read_flash(struct ssd *ssd, const struct part *part, uint64_t ready_ns)
{
	uint32_t d = hsp_ftl_die_of(&ssd->ftl, part->page);
	struct channel *channel = channel_of(ssd, d);
	uint64_t at_ns;

	run_channel(ssd, d % ssd->channels, ready_ns);
	at_ns = hsp_later(ready_ns, ssd->die[d].free_ns) + ssd->read_ns +
		hsp_rng_skewed(&ssd->rng, ssd->read_spread_ns);
	at_ns = hsp_later(at_ns, channel->free_ns) +
		hsp_transfer_ns((uint64_t)part->sectors * HSP_SECTOR_BYTES, ssd->channel_bytes_per_s);
	ssd->die[d].free_ns = channel->free_ns = at_ns;
	count(ssd, HSP_PAGES_READ, 1);
	return at_ns;
}

static uint64_t read_sectors(struct ssd *ssd, const struct hsp_request *request)
{
	uint64_t start_ns = admit(ssd, ssd->command_ns, ssd->command_spread_ns), done_ns = start_ns;
	uint64_t end = request->sector + request->sectors;

	for (uint64_t sector = request->sector; sector < end;) {
		struct part part = part_at(ssd, sector, end);
		uint32_t slot = ssd->buffer.slot_of[part.page];
		uint64_t ready_ns = start_ns;

		if (slot != HSP_NO_SLOT && !(part.mask & ~ssd->buffer.slot[slot].mask))
			count(ssd, HSP_CACHE_HITS, 1);
		else if (hsp_ftl_is_mapped(&ssd->ftl, part.page))
			ready_ns = read_flash(ssd, &part, start_ns);
		ready_ns = over_link(ssd, ready_ns, (uint64_t)part.sectors * HSP_SECTOR_BYTES);
		done_ns = hsp_later(done_ns, ready_ns);
		sector += part.sectors;
	}
	return done_ns;
}

/* When something next begins or ends inside; there is something, as a full buffer is never idle. */
static uint64_t next_event_ns(struct ssd *ssd)
{
	struct hsp_buffer *buffer = &ssd->buffer;
	uint64_t event_ns = buffer->heap_count ? buffer->slot[buffer->heap[0]].end_ns : UINT64_MAX;

	for (uint32_t channel = 0; channel < ssd->channels; channel++) {
		enum work work;
		uint64_t start_ns;

		if (next_die(ssd, channel, &work, &start_ns) != ssd->dies && start_ns + 1 < event_ns)
			event_ns = start_ns + 1;
	}
	return event_ns;
}

static uint64_t wait_for_slot(struct ssd *ssd, uint64_t now_ns)
{
	if (ssd->buffer.free.count)
		return now_ns;
	count(ssd, HSP_CACHE_WAITS, 1);
	advance(ssd, now_ns);
	while (!ssd->buffer.free.count) {
		now_ns = hsp_later(now_ns, next_event_ns(ssd));
		advance(ssd, now_ns);
	}
	return now_ns;
}

static int holds_unbegun(const struct ssd *ssd, uint32_t slot)
{
	return slot != HSP_NO_SLOT && ssd->buffer.slot[slot].state != HSP_SLOT_PROGRAMMING;
}

/* The sectors are in the buffer from then on; what is too much there goes to the dies. */
static uint64_t buffer_write(struct ssd *ssd, const struct part *part, uint64_t now_ns)
{
	struct hsp_buffer *buffer = &ssd->buffer;
	uint32_t slot = buffer->slot_of[part->page];

	if (holds_unbegun(ssd, slot)) {
		buffer->slot[slot].mask |= part->mask;
		return now_ns;
	}
	now_ns = wait_for_slot(ssd, now_ns);
	hsp_buffer_take(buffer, part->page, part->mask, now_ns);
	while (buffer->dirty.count > ssd->destage_at)
		queue(ssd, buffer->dirty.first, now_ns);
	return now_ns;
}

/* The page's slot is begun before anything else that waits for its die; when that is over. */
static uint64_t force(struct ssd *ssd, const struct part *part, uint64_t now_ns)
{
	struct hsp_buffer *buffer = &ssd->buffer;
	uint32_t number = buffer->slot_of[part->page], d = hsp_ftl_die_of(&ssd->ftl, part->page);
	struct hsp_slot *slot = &buffer->slot[number];

	if (number == HSP_NO_SLOT) /* programmed while the rest of a long request waited */
		return now_ns;
	if (slot->state == HSP_SLOT_DIRTY)
		queue(ssd, number, now_ns);
	if (slot->state == HSP_SLOT_QUEUED) {
		hsp_buffer_remove(buffer, &ssd->die[d].queue, number);
		hsp_buffer_prepend(buffer, &ssd->die[d].queue, number);
		slot->since_ns = now_ns;
		while (slot->state == HSP_SLOT_QUEUED) {
			enum work work = NOTHING;
			uint64_t start_ns;

			next_die(ssd, d % ssd->channels, &work, &start_ns);
			run_channel(ssd, d % ssd->channels, start_ns + 1);
		}
	}
	keep(ssd, part->page, part->mask, slot->end_ns, 1);
	return slot->end_ns;
}

static uint64_t write_sectors(struct ssd *ssd, uint64_t first, uint64_t end, int fua, uint64_t now_ns)
{
	uint64_t done_ns = now_ns;

	if (!ssd->is_protected)
		hsp_safety_lose(&ssd->safety, ssd->now_ns, first, end - first);
	for (uint64_t sector = first; sector < end;) {
		struct part part = part_at(ssd, sector, end);
		uint64_t there_ns = over_link(ssd, now_ns, (uint64_t)part.sectors * HSP_SECTOR_BYTES);

		/* A full buffer stops the transfer. */
		done_ns = ssd->link_free_ns = buffer_write(ssd, &part, there_ns);
		sector += part.sectors;
	}
	if (!fua || ssd->is_protected || ssd->ignores_flush)
		return done_ns;
	now_ns = done_ns;
	for (uint64_t sector = first; sector < end;) {
		struct part part = part_at(ssd, sector, end);

		done_ns = hsp_later(done_ns, force(ssd, &part, now_ns));
		sector += part.sectors;
	}
	return done_ns;
}

static uint64_t flush(struct ssd *ssd)
{
	struct hsp_buffer *buffer = &ssd->buffer;
	uint64_t now_ns = admit(ssd, ssd->flush_ns, 0), done_ns = now_ns;

	if (ssd->is_protected || ssd->ignores_flush)
		return done_ns;
	while (buffer->dirty.count)
		queue(ssd, buffer->dirty.first, now_ns);
	for (uint32_t channel = 0; channel < ssd->channels && ssd->queued; channel++)
		for (;;) {
			enum work work = NOTHING;
			uint64_t start_ns;
			uint32_t waiting = 0;

			for (uint32_t d = channel; d < ssd->dies; d += ssd->channels)
				waiting += ssd->die[d].queue.count;
			if (!waiting)
				break;
			next_die(ssd, channel, &work, &start_ns);
			run_channel(ssd, channel, start_ns + 1);
		}
	for (uint32_t i = 0; i < buffer->heap_count; i++) {
		struct hsp_slot *slot = &buffer->slot[buffer->heap[i]];

		done_ns = hsp_later(done_ns, slot->end_ns);
		keep(ssd, slot->page, slot->mask, slot->end_ns, 1);
	}
	return done_ns;
}

static void forget_page(struct ssd *ssd, uint32_t page)
{
	struct hsp_buffer *buffer = &ssd->buffer;
	uint32_t number = buffer->slot_of[page];

	hsp_ftl_unmap(&ssd->ftl, page);
	if (number == HSP_NO_SLOT)
		return;
	if (buffer->slot[number].state == HSP_SLOT_PROGRAMMING) {
		buffer->slot_of[page] = HSP_NO_SLOT;
		return;
	}
	if (buffer->slot[number].state == HSP_SLOT_QUEUED) {
		uint32_t d = hsp_ftl_die_of(&ssd->ftl, page);

		hsp_buffer_remove(buffer, &ssd->die[d].queue, number);
		channel_of(ssd, d)->work--;
		ssd->queued--;
	} else {
		hsp_buffer_remove(buffer, &buffer->dirty, number);
	}
	hsp_buffer_drop(buffer, number);
}

/* An empty device is erased whole, as by a format: it answers when it is as new. */
static uint64_t erase_all(struct ssd *ssd, uint64_t now_ns)
{
	uint64_t done_ns = now_ns;

	for (uint32_t d = 0; d < ssd->dies; d++) {
		struct die *die = &ssd->die[d];
		uint32_t erased = hsp_ftl_erase_all(&ssd->ftl, d);

		if (!erased)
			continue;
		die->free_ns = hsp_later(die->free_ns, now_ns) + erased * ssd->erase_ns;
		done_ns = hsp_later(done_ns, die->free_ns);
		count(ssd, HSP_BLOCKS_ERASED, erased);
		watch_room(ssd, d);
	}
	return done_ns;
}

/* Sectors whose whole page is in the range are unmapped at once; the rest stays (`zero`: is written). */
static uint64_t discard(struct ssd *ssd, const struct hsp_request *request, int zero)
{
	uint64_t now_ns = admit(ssd, ssd->command_ns, ssd->command_spread_ns), done_ns = now_ns;
	uint64_t end = request->sector + request->sectors;

	for (uint64_t sector = request->sector; sector < end;) {
		struct part part = part_at(ssd, sector, end);

		if (part.sectors == ssd->page_sectors || (!part.first && end == ssd->model.sectors)) {
			forget_page(ssd, part.page);
			if (!ssd->is_protected)
				keep(ssd, part.page, part.mask, 0, 0);
		} else if (zero) {
			done_ns = hsp_later(done_ns, write_sectors(ssd, sector, sector + part.sectors,
								   request->fua, now_ns));
		}
		sector += part.sectors;
	}
	if (!ssd->ftl.mapped && !ssd->queued && !ssd->buffer.dirty.count)
		done_ns = hsp_later(done_ns, erase_all(ssd, now_ns));
	return done_ns;
}

static uint64_t carry_out(struct ssd *ssd, const struct hsp_request *request)
{
	switch (request->op) {
	case HSP_READ:
		return read_sectors(ssd, request);
	case HSP_WRITE:
		return write_sectors(ssd, request->sector, request->sector + request->sectors, request->fua,
				     admit(ssd, ssd->write_command_ns, ssd->write_command_spread_ns));
	case HSP_FLUSH:
		return flush(ssd);
	default:
		return discard(ssd, request, request->op == HSP_WRITE_ZEROES);
	}
}

static uint64_t ssd_submit(struct hsp_model *model, const struct hsp_request *request)
{
	struct ssd *ssd = ssd_of(model);
	uint64_t done_ns;

	ssd->now_ns = request->arrival_ns;
	advance(ssd, request->arrival_ns);
	done_ns = carry_out(ssd, request);
	model->counts.of[HSP_PAGES_MAPPED] = ssd->ftl.mapped;
	model->counts.of[HSP_PAGES_BUFFERED] = ssd->buffer.slots - ssd->buffer.free.count;
	return done_ns;
}
/* --- Power, state, life ---------------------------------------------------------------------- */

static int ssd_is_volatile(struct hsp_model *model, uint64_t now_ns, uint64_t sector)
{
	struct ssd *ssd = ssd_of(model);

	if (ssd->is_protected)
		return 0;
	ssd->now_ns = now_ns;
	advance(ssd, now_ns);
	return hsp_safety_is_lost(&ssd->safety, now_ns, sector);
}

/* A page that was about to be written for the first time was never written. */
static int is_torn(const struct ssd *ssd, const struct hsp_slot *slot, uint64_t now_ns)
{
	return !ssd->is_protected && slot->state == HSP_SLOT_PROGRAMMING && slot->is_first &&
	       slot->end_ns > now_ns;
}

/* Nothing is busy, and time goes on from now. */
static void settle(struct ssd *ssd, uint64_t now_ns)
{
	while (ssd->buffer.dirty.count > ssd->destage_at)
		queue(ssd, ssd->buffer.dirty.first, now_ns);
	for (uint32_t d = 0; d < ssd->dies; d++) {
		ssd->die[d].free_ns = now_ns;
		ssd->die[d].credit = 0;
		watch_room(ssd, d);
	}
	for (uint32_t channel = 0; channel < ssd->channels; channel++)
		ssd->channel[channel].free_ns = now_ns;
	ssd->firmware_free_ns = ssd->link_free_ns = now_ns;
}

static void put_slot(const struct hsp_slot *slot, struct hsp_state *state)
{
	hsp_state_put(state, slot->page, 4);
	hsp_state_put(state, slot->mask, 8);
}

static void ssd_forget(struct hsp_model *model, uint64_t now_ns)
{
	struct ssd *ssd = ssd_of(model);
	struct hsp_buffer *buffer = &ssd->buffer;

	ssd->now_ns = now_ns;
	advance(ssd, now_ns);
	for (uint32_t i = 0; i < buffer->heap_count; i++) {
		struct hsp_slot *slot = &buffer->slot[buffer->heap[i]];

		if (is_torn(ssd, slot, now_ns))
			hsp_ftl_unmap(&ssd->ftl, slot->page);
	}
	hsp_buffer_release(buffer, UINT64_MAX);
	for (uint32_t number = 0; number < buffer->slots; number++) {
		struct hsp_slot *slot = &buffer->slot[number];
		uint32_t d = hsp_ftl_die_of(&ssd->ftl, slot->page);

		if (slot->state == HSP_SLOT_FREE)
			continue;
		if (slot->state == HSP_SLOT_QUEUED) {
			hsp_buffer_remove(buffer, &ssd->die[d].queue, number);
			channel_of(ssd, d)->work--;
			ssd->queued--;
			slot->state = HSP_SLOT_DIRTY;
			hsp_buffer_append(buffer, &buffer->dirty, number);
		}
		slot->since_ns = now_ns;
		if (!ssd->is_protected) {
			hsp_buffer_remove(buffer, &buffer->dirty, number);
			hsp_buffer_drop(buffer, number);
		}
	}
	settle(ssd, now_ns);
	if (!ssd->is_protected)
		hsp_safety_clear(&ssd->safety);
}

static void ssd_put(struct hsp_model *model, uint64_t now_ns, struct hsp_state *state)
{
	struct ssd *ssd = ssd_of(model);
	struct hsp_buffer *buffer = &ssd->buffer;
	uint32_t torn = 0, kept;

	ssd->now_ns = now_ns;
	advance(ssd, now_ns);
	kept = ssd->is_protected ? buffer->dirty.count + ssd->queued : 0;
	hsp_state_put(state, ssd->rng.state, 8);
	hsp_ftl_put(&ssd->ftl, state);
	for (uint32_t i = 0; i < buffer->heap_count; i++)
		torn += (uint32_t)is_torn(ssd, &buffer->slot[buffer->heap[i]], now_ns);
	hsp_state_put(state, torn, 4);
	for (uint32_t i = 0; i < buffer->heap_count; i++)
		if (is_torn(ssd, &buffer->slot[buffer->heap[i]], now_ns))
			hsp_state_put(state, buffer->slot[buffer->heap[i]].page, 4);
	hsp_state_put(state, kept, 4);
	if (!kept)
		return;
	for (uint32_t i = buffer->dirty.first; i != HSP_NO_SLOT; i = buffer->slot[i].next)
		put_slot(&buffer->slot[i], state);
	for (uint32_t i = 0; i < buffer->slots; i++) /* the order in which ssd_forget takes them */
		if (buffer->slot[i].state == HSP_SLOT_QUEUED)
			put_slot(&buffer->slot[i], state);
}

static void ssd_get(struct hsp_model *model, struct hsp_state *state)
{
	struct ssd *ssd = ssd_of(model);
	uint64_t rng_state = hsp_state_get(state, 8);
	uint32_t pages = ssd->ftl.logical_pages, torn, kept;

	hsp_ftl_get(&ssd->ftl, state);
	torn = (uint32_t)hsp_state_get_upto(state, 4, ssd->buffer.slots);
	for (uint32_t i = 0; i < torn; i++)
		hsp_ftl_unmap(&ssd->ftl, (uint32_t)hsp_state_get_upto(state, 4, pages - 1));
	kept = (uint32_t)hsp_state_get_upto(state, 4, ssd->is_protected ? ssd->buffer.slots : 0);
	for (uint32_t i = 0; i < kept && !state->failed; i++) {
		uint32_t page = (uint32_t)hsp_state_get_upto(state, 4, pages - 1);
		uint64_t mask = hsp_state_get_upto(state, 8, full_mask(ssd));

		if (ssd->buffer.slot_of[page] != HSP_NO_SLOT)
			state->failed = 1;
		else
			hsp_buffer_take(&ssd->buffer, page, mask, 0);
	}
	if (state->failed)
		return;
	ssd->rng.state = rng_state;
	settle(ssd, 0);
}

static uint64_t ssd_memory(const struct hsp_model *model)
{
	const struct ssd *ssd = (const struct ssd *)model;

	return sizeof(*ssd) + hsp_ftl_memory(&ssd->ftl) + hsp_buffer_memory(&ssd->buffer) +
	       (ssd->is_protected ? 0 : ssd->model.sectors * 8) + ssd->dies * sizeof(*ssd->die) +
	       ssd->channels * sizeof(*ssd->channel);
}

static void ssd_free(struct hsp_model *model)
{
	struct ssd *ssd = ssd_of(model);

	hsp_ftl_free(&ssd->ftl);
	hsp_buffer_free(&ssd->buffer);
	hsp_safety_free(&ssd->safety);
	free(ssd->die);
	free(ssd->channel);
	free(ssd);
}

static const struct hsp_model_ops SSD_OPS = {
	.submit = ssd_submit,
	.is_volatile = ssd_is_volatile,
	.forget = ssd_forget,
	.put = ssd_put,
	.get = ssd_get,
	.memory = ssd_memory,
	.free = ssd_free,
};

static void read_times(struct ssd *ssd, struct hsp_spec *spec)
{
	const uint64_t max_ns = 4000000000u; /* below 2^32, as random numbers are */

	ssd->rng.state = hsp_spec_number(spec, "seed", 0, UINT64_MAX);
	ssd->read_ns = hsp_spec_number(spec, "read_ns", 1, max_ns);
	ssd->read_spread_ns = hsp_spec_number(spec, "read_spread_ns", 0, max_ns);
	ssd->program_ns = hsp_spec_number(spec, "program_ns", 1, max_ns);
	ssd->program_spread_ns = hsp_spec_number(spec, "program_spread_ns", 0, max_ns);
	ssd->erase_ns = hsp_spec_number(spec, "erase_ns", 1, max_ns);
	ssd->channel_bytes_per_s = hsp_spec_number(spec, "channel_bytes_per_s", 1000, HSP_MAX_BYTES_PER_S);
	ssd->link_bytes_per_s = hsp_spec_number(spec, "link_bytes_per_s", 1000, HSP_MAX_BYTES_PER_S);
	ssd->serial_ns = hsp_spec_number(spec, "serial_ns", 0, max_ns);
	ssd->command_ns = hsp_spec_number(spec, "command_ns", 0, max_ns);
	ssd->command_spread_ns = hsp_spec_number(spec, "command_spread_ns", 0, max_ns);
	ssd->write_command_ns = hsp_spec_number(spec, "write_command_ns", 0, max_ns);
	ssd->write_command_spread_ns = hsp_spec_number(spec, "write_command_spread_ns", 0, max_ns);
	ssd->flush_ns = hsp_spec_number(spec, "flush_ns", 0, max_ns);
	ssd->destage_idle_ns = hsp_spec_number(spec, "destage_idle_ns", 0, UINT64_C(1) << 50);
}

static int allocate(struct ssd *ssd, uint32_t pages_per_block, uint32_t spare_permyriad, uint32_t slots)
{
	const struct hsp_slot_list empty = { HSP_NO_SLOT, HSP_NO_SLOT, 0 };
	uint64_t pages = (ssd->model.sectors + ssd->page_sectors - 1) / ssd->page_sectors;

	if (pages >= HSP_NO_PAGE ||
	    hsp_ftl_init(&ssd->ftl, ssd->dies, pages_per_block, (uint32_t)pages, spare_permyriad) ||
	    hsp_buffer_init(&ssd->buffer, slots, (uint32_t)pages) ||
	    (!ssd->is_protected && hsp_safety_init(&ssd->safety, ssd->model.sectors)))
		return -1;
	ssd->die = calloc(ssd->dies, sizeof(*ssd->die));
	ssd->channel = calloc(ssd->channels, sizeof(*ssd->channel));
	if (!ssd->die || !ssd->channel)
		return -1;
	for (uint32_t d = 0; d < ssd->dies; d++)
		ssd->die[d].queue = empty;
	return 0;
}

struct hsp_model *hsp_ssd_new(struct hsp_spec *spec, uint64_t sectors)
{
	static const char *const FLUSH[] = { "honoured", "ignored", NULL };
	uint32_t pages_per_block, spare_permyriad, slots;
	struct ssd *ssd = calloc(1, sizeof(*ssd));

	if (!ssd) {
		hsp_spec_fail(spec, "no memory for the model");
		return NULL;
	}
	ssd->model = (struct hsp_model){ .ops = &SSD_OPS, .sectors = sectors };
	ssd->channels = (uint32_t)hsp_spec_number(spec, "channels", 1, 64);
	ssd->dies = ssd->channels * (uint32_t)hsp_spec_number(spec, "dies_per_channel", 1, 64);
	ssd->page_bytes = (uint32_t)hsp_spec_number(spec, "page_bytes", HSP_SECTOR_BYTES, 64 * HSP_SECTOR_BYTES);
	ssd->page_sectors = ssd->page_bytes / HSP_SECTOR_BYTES;
	if (ssd->page_bytes & (ssd->page_bytes - 1))
		hsp_spec_fail(spec, "page_bytes is %u, not a power of two", ssd->page_bytes);
	pages_per_block = (uint32_t)hsp_spec_number(spec, "pages_per_block", 2, 4096);
	spare_permyriad = (uint32_t)hsp_spec_number(spec, "over_provisioning_permyriad", 0, 9999);
	slots = (uint32_t)hsp_spec_number(spec, "buffer_pages", 2, 1u << 24);
	ssd->destage_at = slots * (uint32_t)hsp_spec_number(spec, "destage_at_percent", 0, 99) / 100;
	ssd->is_protected = (int)hsp_spec_number(spec, "power_loss_protection", 0, 1);
	ssd->ignores_flush = (int)hsp_spec_word(spec, "flush", FLUSH);
	read_times(ssd, spec);
	ssd->model.attributes = HSP_DISCARDS | (ssd->is_protected ? 0 : HSP_VOLATILE_CACHE);
	if (!spec->failed && allocate(ssd, pages_per_block, spare_permyriad, slots))
		hsp_spec_fail(spec, "no memory for the model of so many pages");
	if (spec->failed) {
		ssd_free(&ssd->model);
		return NULL;
	}
	return &ssd->model;
}
