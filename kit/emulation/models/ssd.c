/*
 * Model of an SSD: firmware, link, a write buffer in front of the flash (nand.h), and which writes
 * survive a power loss.
 *
 * A flush or FUA write starts the programs it needs at once and in order, so that its end is known. With the
 * write cache off every write is done as a FUA write is, and the device reports no volatile cache (ATA8-ACS,
 * SET FEATURES 82h; NVMe base specification, feature 06h).
 */
#include <stdlib.h>

#include "impl.h"
#include "nand.h"

struct ssd {
	struct hsp_model model;
	struct hsp_nand nand;
	uint64_t link_bytes_per_s;
	uint64_t serial_ns, command_ns, command_spread_ns, write_command_ns, write_command_spread_ns, flush_ns;
	uint32_t destage_at; /* more dirty slots than these are programmed */
	int is_protected, ignores_flush, writes_through;
	uint64_t firmware_free_ns, link_free_ns;
};

static struct ssd *ssd_of(struct hsp_model *model)
{
	return (struct ssd *)model;
}

/* --- Host requests --------------------------------------------------------------------------- */

static uint64_t admit(struct ssd *ssd, uint64_t command_ns, uint64_t spread_ns)
{
	ssd->firmware_free_ns = hsp_later(ssd->nand.now_ns, ssd->firmware_free_ns) + ssd->serial_ns;
	return ssd->firmware_free_ns + command_ns + hsp_rng_skewed(&ssd->nand.rng, spread_ns);
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
	struct part part = { .page = (uint32_t)(sector / ssd->nand.page_sectors),
			     .first = (unsigned)(sector % ssd->nand.page_sectors) };
	uint64_t sectors = ssd->nand.page_sectors - part.first;

	part.sectors = (unsigned)(sectors < end - sector ? sectors : end - sector);
	part.mask = (part.sectors == 64 ? UINT64_MAX : (UINT64_C(1) << part.sectors) - 1) << part.first;
	return part;
}

static uint64_t read_sectors(struct ssd *ssd, const struct hsp_request *request)
{
	uint64_t start_ns = admit(ssd, ssd->command_ns, ssd->command_spread_ns), done_ns = start_ns;
	uint64_t end = request->sector + request->sectors;

	for (uint64_t sector = request->sector; sector < end;) {
		struct part part = part_at(ssd, sector, end);
		uint32_t slot = ssd->nand.buffer.slot_of[part.page];
		uint64_t ready_ns = start_ns;

		if (slot != HSP_NO_SLOT && !(part.mask & ~ssd->nand.buffer.slot[slot].mask))
			ssd->model.counts.of[HSP_CACHE_HITS]++;
		else if (hsp_ftl_is_mapped(&ssd->nand.ftl, part.page))
			ready_ns = hsp_nand_read(&ssd->nand, part.page, part.sectors, start_ns);
		ready_ns = over_link(ssd, ready_ns, (uint64_t)part.sectors * HSP_SECTOR_BYTES);
		done_ns = hsp_later(done_ns, ready_ns);
		sector += part.sectors;
	}
	return done_ns;
}

static uint64_t wait_for_slot(struct ssd *ssd, uint64_t now_ns)
{
	if (ssd->nand.buffer.free.count)
		return now_ns;
	ssd->model.counts.of[HSP_CACHE_WAITS]++;
	hsp_nand_advance(&ssd->nand, now_ns);
	while (!ssd->nand.buffer.free.count) {
		now_ns = hsp_later(now_ns, hsp_nand_next_event_ns(&ssd->nand));
		hsp_nand_advance(&ssd->nand, now_ns);
	}
	return now_ns;
}

static int is_not_programming(const struct ssd *ssd, uint32_t slot)
{
	return slot != HSP_NO_SLOT && ssd->nand.buffer.slot[slot].state != HSP_SLOT_PROGRAMMING;
}

/* Put sectors into the buffer; returns when they are in it. Dirty slots above the limit are queued. */
static uint64_t buffer_write(struct ssd *ssd, const struct part *part, uint64_t now_ns)
{
	struct hsp_buffer *buffer = &ssd->nand.buffer;
	uint32_t slot = buffer->slot_of[part->page];

	if (is_not_programming(ssd, slot)) {
		buffer->slot[slot].mask |= part->mask;
		return now_ns;
	}
	now_ns = wait_for_slot(ssd, now_ns);
	hsp_buffer_take(buffer, part->page, part->mask, now_ns);
	while (buffer->dirty.count > ssd->destage_at)
		hsp_nand_queue(&ssd->nand, buffer->dirty.first, now_ns);
	return now_ns;
}

/* Program the page's slot before all other work of its die; returns the end. */
static uint64_t force_program(struct ssd *ssd, const struct part *part, uint64_t now_ns)
{
	struct hsp_buffer *buffer = &ssd->nand.buffer;
	uint32_t number = buffer->slot_of[part->page];
	struct hsp_slot *slot;

	if (number == HSP_NO_SLOT) /* already programmed while the rest of a long request waited */
		return now_ns;
	slot = &buffer->slot[number];
	if (slot->state != HSP_SLOT_PROGRAMMING)
		hsp_nand_force(&ssd->nand, number, now_ns);
	hsp_nand_promise(&ssd->nand, slot);
	return slot->end_ns;
}

static uint64_t write_sectors(struct ssd *ssd, uint64_t first, uint64_t end, int fua, uint64_t now_ns)
{
	uint64_t done_ns = now_ns;

	if (!ssd->is_protected)
		hsp_durability_set_volatile(&ssd->nand.durability, ssd->nand.now_ns, first, end - first);
	for (uint64_t sector = first; sector < end;) {
		struct part part = part_at(ssd, sector, end);
		uint64_t received_ns = over_link(ssd, now_ns, (uint64_t)part.sectors * HSP_SECTOR_BYTES);

		/* A full buffer delays the transfer. */
		done_ns = ssd->link_free_ns = buffer_write(ssd, &part, received_ns);
		sector += part.sectors;
	}
	if (ssd->is_protected || !(ssd->writes_through || (fua && !ssd->ignores_flush)))
		return done_ns;
	now_ns = done_ns;
	for (uint64_t sector = first; sector < end;) {
		struct part part = part_at(ssd, sector, end);

		done_ns = hsp_later(done_ns, force_program(ssd, &part, now_ns));
		sector += part.sectors;
	}
	return done_ns;
}

static uint64_t flush(struct ssd *ssd)
{
	struct hsp_buffer *buffer = &ssd->nand.buffer;
	uint64_t now_ns = admit(ssd, ssd->flush_ns, 0), done_ns = now_ns;

	if (ssd->is_protected || (ssd->ignores_flush && !ssd->writes_through))
		return done_ns;
	while (buffer->dirty.count)
		hsp_nand_queue(&ssd->nand, buffer->dirty.first, now_ns);
	hsp_nand_force_all(&ssd->nand);
	/* A long write that waited for slots may have released programs that end after this flush arrives. */
	done_ns = hsp_later(done_ns, buffer->released_ns);
	for (uint32_t i = 0; i < buffer->heap_count; i++) {
		struct hsp_slot *slot = &buffer->slot[buffer->heap[i]];

		done_ns = hsp_later(done_ns, slot->end_ns);
		hsp_nand_promise(&ssd->nand, slot);
	}
	return done_ns;
}

static void discard_page(struct ssd *ssd, uint32_t page)
{
	struct hsp_buffer *buffer = &ssd->nand.buffer;
	uint32_t number = buffer->slot_of[page];

	hsp_ftl_unmap(&ssd->nand.ftl, page);
	if (number == HSP_NO_SLOT)
		return;
	if (buffer->slot[number].state == HSP_SLOT_PROGRAMMING) {
		buffer->slot_of[page] = HSP_NO_SLOT;
		return;
	}
	if (buffer->slot[number].state == HSP_SLOT_QUEUED)
		hsp_nand_unqueue(&ssd->nand, number);
	else
		hsp_buffer_remove(buffer, &buffer->dirty, number);
	hsp_buffer_drop(buffer, number);
}

/* Unmap the pages that are completely in the range; partial pages stay (`zero`: are written). */
static uint64_t discard(struct ssd *ssd, const struct hsp_request *request, int zero)
{
	uint64_t now_ns = admit(ssd, ssd->command_ns, ssd->command_spread_ns), done_ns = now_ns;
	uint64_t end = request->sector + request->sectors;

	for (uint64_t sector = request->sector; sector < end;) {
		struct part part = part_at(ssd, sector, end);

		if (part.sectors == ssd->nand.page_sectors || (!part.first && end == ssd->model.sectors)) {
			discard_page(ssd, part.page);
			if (!ssd->is_protected)
				hsp_nand_set_durable(&ssd->nand, part.page, part.mask, 0, 0);
		} else if (zero) {
			done_ns = hsp_later(done_ns, write_sectors(ssd, sector, sector + part.sectors,
								   request->fua, now_ns));
		}
		sector += part.sectors;
	}
	if (!ssd->nand.ftl.mapped && !ssd->nand.queued && !ssd->nand.buffer.dirty.count)
		done_ns = hsp_later(done_ns, hsp_nand_erase_all(&ssd->nand, now_ns));
	return done_ns;
}

static void count_pages(struct ssd *ssd)
{
	ssd->model.counts.of[HSP_PAGES_MAPPED] = ssd->nand.ftl.mapped;
	ssd->model.counts.of[HSP_PAGES_BUFFERED] = ssd->nand.buffer.slots - ssd->nand.buffer.free.count;
}

static uint64_t execute(struct ssd *ssd, const struct hsp_request *request)
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

/* When the request is done, after the drive has looked at how warm it is. */
static uint64_t throttled(struct hsp_heat *heat, const struct hsp_request *request, uint64_t done_ns)
{
	uint64_t now_ns = request->arrival_ns;
	int was_hot = heat->bytes >= heat->after_bytes;

	if (!heat->after_bytes)
		return done_ns;
	if (now_ns >= heat->quiet_ns && now_ns - heat->quiet_ns >= heat->cool_ns)
		heat->bytes = was_hot = 0;
	if (was_hot)
		heat->throttled_ns += now_ns - heat->last_ns;
	heat->last_ns = now_ns;
	if (request->op == HSP_READ || request->op == HSP_WRITE)
		heat->bytes += (uint64_t)request->sectors * HSP_SECTOR_BYTES;
	if (heat->bytes >= heat->after_bytes) {
		heat->transitions += !was_hot;
		done_ns = now_ns + (done_ns - now_ns) * heat->factor;
	}
	heat->quiet_ns = hsp_later(heat->quiet_ns, done_ns);
	return done_ns;
}

static uint64_t ssd_submit(struct hsp_model *model, const struct hsp_request *request)
{
	struct ssd *ssd = ssd_of(model);
	uint64_t done_ns;

	ssd->nand.now_ns = request->arrival_ns;
	hsp_nand_advance(&ssd->nand, request->arrival_ns);
	done_ns = throttled(&model->heat, request, execute(ssd, request));
	count_pages(ssd);
	return done_ns;
}

/* --- Power loss, saved state, creation ------------------------------------------------------- */

static int ssd_is_volatile(struct hsp_model *model, uint64_t now_ns, uint64_t sector)
{
	struct ssd *ssd = ssd_of(model);

	if (ssd->is_protected)
		return 0;
	ssd->nand.now_ns = now_ns;
	hsp_nand_advance(&ssd->nand, now_ns);
	return hsp_durability_is_volatile(&ssd->nand.durability, now_ns, sector);
}

/* Make the device idle at now_ns. */
static void settle(struct ssd *ssd, uint64_t now_ns)
{
	while (ssd->nand.buffer.dirty.count > ssd->destage_at)
		hsp_nand_queue(&ssd->nand, ssd->nand.buffer.dirty.first, now_ns);
	hsp_nand_settle(&ssd->nand, now_ns);
	ssd->firmware_free_ns = ssd->link_free_ns = now_ns;
}

static void save_slots(const struct hsp_buffer *buffer, const struct hsp_slot_list *list, struct hsp_state *state)
{
	for (uint32_t i = list->first; i != HSP_NO_SLOT; i = buffer->slot[i].next) {
		hsp_state_put(state, buffer->slot[i].page, 4);
		hsp_state_put(state, buffer->slot[i].mask, 8);
	}
}

static void ssd_power_loss(struct hsp_model *model, uint64_t now_ns)
{
	struct ssd *ssd = ssd_of(model);
	struct hsp_buffer *buffer = &ssd->nand.buffer;

	ssd->nand.now_ns = now_ns;
	hsp_nand_advance(&ssd->nand, now_ns);
	for (uint32_t page = 0; page < ssd->nand.ftl.logical_pages; page++)
		if (hsp_nand_is_torn(&ssd->nand, page, now_ns))
			hsp_ftl_unmap(&ssd->nand.ftl, page);
	hsp_buffer_release(buffer, UINT64_MAX);
	buffer->released_ns = 0;
	hsp_nand_unqueue_all(&ssd->nand);
	for (uint32_t number = buffer->dirty.first, next; number != HSP_NO_SLOT; number = next) {
		next = buffer->slot[number].next;
		buffer->slot[number].since_ns = now_ns;
		if (!ssd->is_protected) {
			hsp_buffer_remove(buffer, &buffer->dirty, number);
			hsp_buffer_drop(buffer, number);
		}
	}
	settle(ssd, now_ns);
	if (!ssd->is_protected)
		hsp_durability_clear(&ssd->nand.durability);
	count_pages(ssd);
}

static void ssd_save(struct hsp_model *model, uint64_t now_ns, struct hsp_state *state)
{
	struct ssd *ssd = ssd_of(model);
	struct hsp_buffer *buffer = &ssd->nand.buffer;
	uint32_t torn = 0, kept;

	ssd->nand.now_ns = now_ns;
	hsp_nand_advance(&ssd->nand, now_ns);
	kept = ssd->is_protected ? buffer->dirty.count + ssd->nand.queued : 0;
	hsp_state_put(state, ssd->nand.rng.state, 8);
	hsp_ftl_save(&ssd->nand.ftl, state);
	for (uint32_t page = 0; page < ssd->nand.ftl.logical_pages; page++)
		torn += (uint32_t)hsp_nand_is_torn(&ssd->nand, page, now_ns);
	hsp_state_put(state, torn, 4);
	for (uint32_t page = 0; page < ssd->nand.ftl.logical_pages; page++)
		if (hsp_nand_is_torn(&ssd->nand, page, now_ns))
			hsp_state_put(state, page, 4);
	hsp_state_put(state, kept, 4);
	if (!kept)
		return;
	for (uint32_t d = 0; d < ssd->nand.dies; d++) /* the order of hsp_nand_unqueue_all */
		save_slots(buffer, &ssd->nand.die[d].queue, state);
	save_slots(buffer, &buffer->dirty, state);
}

static void ssd_load(struct hsp_model *model, struct hsp_state *state)
{
	struct ssd *ssd = ssd_of(model);
	uint64_t rng_state = hsp_state_get(state, 8);
	uint32_t pages = ssd->nand.ftl.logical_pages, torn, kept;

	hsp_ftl_load(&ssd->nand.ftl, state);
	torn = (uint32_t)hsp_state_get_upto(state, 4, pages);
	for (uint32_t i = 0; i < torn && !state->failed; i++)
		hsp_ftl_unmap(&ssd->nand.ftl, (uint32_t)hsp_state_get_upto(state, 4, pages - 1));
	kept = (uint32_t)hsp_state_get_upto(state, 4, ssd->is_protected ? ssd->nand.buffer.slots : 0);
	for (uint32_t i = 0; i < kept && !state->failed; i++) {
		uint32_t page = (uint32_t)hsp_state_get_upto(state, 4, pages - 1);
		uint64_t mask = hsp_state_get_upto(state, 8, hsp_nand_full_mask(&ssd->nand));

		if (ssd->nand.buffer.slot_of[page] != HSP_NO_SLOT)
			state->failed = 1;
		else
			hsp_buffer_take(&ssd->nand.buffer, page, mask, 0);
	}
	if (state->failed)
		return;
	ssd->nand.rng.state = rng_state;
	settle(ssd, 0);
	count_pages(ssd);
}

static void ssd_write_cache(struct hsp_model *model, int on)
{
	ssd_of(model)->writes_through = !on;
}

static void ssd_free(struct hsp_model *model)
{
	struct ssd *ssd = ssd_of(model);

	hsp_nand_free(&ssd->nand);
	free(ssd);
}

static const struct hsp_model_ops SSD_OPS = {
	.submit = ssd_submit,
	.is_volatile = ssd_is_volatile,
	.power_loss = ssd_power_loss,
	.save = ssd_save,
	.load = ssd_load,
	.write_cache = ssd_write_cache,
	.free = ssd_free,
};

static void read_times(struct ssd *ssd, struct hsp_spec *spec)
{
	const uint64_t max_ns = 4000000000u; /* below 2^32: limit of hsp_rng_below */

	ssd->nand.rng.state = hsp_spec_number(spec, "seed", 0, UINT64_MAX);
	ssd->nand.read_ns = hsp_spec_number(spec, "read_ns", 1, max_ns);
	ssd->nand.read_spread_ns = hsp_spec_number(spec, "read_spread_ns", 0, max_ns);
	ssd->nand.program_ns = hsp_spec_number(spec, "program_ns", 1, max_ns);
	ssd->nand.program_spread_ns = hsp_spec_number(spec, "program_spread_ns", 0, max_ns);
	ssd->nand.erase_ns = hsp_spec_number(spec, "erase_ns", 1, max_ns);
	ssd->nand.channel_bytes_per_s = hsp_spec_number(spec, "channel_bytes_per_s", 1000, HSP_MAX_BYTES_PER_S);
	ssd->link_bytes_per_s = hsp_spec_number(spec, "link_bytes_per_s", 1000, HSP_MAX_BYTES_PER_S);
	ssd->serial_ns = hsp_spec_number(spec, "serial_ns", 0, max_ns);
	ssd->command_ns = hsp_spec_number(spec, "command_ns", 0, max_ns);
	ssd->command_spread_ns = hsp_spec_number(spec, "command_spread_ns", 0, max_ns);
	ssd->write_command_ns = hsp_spec_number(spec, "write_command_ns", 0, max_ns);
	ssd->write_command_spread_ns = hsp_spec_number(spec, "write_command_spread_ns", 0, max_ns);
	ssd->flush_ns = hsp_spec_number(spec, "flush_ns", 0, max_ns);
	ssd->nand.destage_idle_ns = hsp_spec_number(spec, "destage_idle_ns", 0, UINT64_C(1) << 50);
	ssd->model.heat = (struct hsp_heat){
		.after_bytes = hsp_spec_number_or(spec, "throttle_after_bytes", 512, UINT64_C(1) << 50, 0),
		.factor = hsp_spec_number_or(spec, "throttle_factor", 2, 1000, 2),
		.cool_ns = hsp_spec_number_or(spec, "throttle_cool_ns", 1, UINT64_C(1) << 50, 1000000000),
	};
}

static struct hsp_model *ssd_new(struct hsp_spec *spec, uint64_t sectors)
{
	static const char *const FLUSH[] = { "honoured", "ignored", NULL };
	static const char *const WRITE_CACHE[] = { "on", "off", NULL };
	uint32_t pages_per_block, spare_permyriad, slots;
	struct ssd *ssd = calloc(1, sizeof(*ssd));

	if (!ssd) {
		hsp_spec_fail(spec, "no memory for the model");
		return NULL;
	}
	ssd->model = (struct hsp_model){ .ops = &SSD_OPS, .sectors = sectors };
	ssd->nand.counts = &ssd->model.counts;
	ssd->nand.channels = (uint32_t)hsp_spec_number(spec, "channels", 1, 64);
	ssd->nand.dies = ssd->nand.channels * (uint32_t)hsp_spec_number(spec, "dies_per_channel", 1, 64);
	ssd->nand.page_bytes = (uint32_t)hsp_spec_number(spec, "page_bytes", HSP_SECTOR_BYTES, 64 * HSP_SECTOR_BYTES);
	ssd->nand.page_sectors = ssd->nand.page_bytes / HSP_SECTOR_BYTES;
	if (ssd->nand.page_bytes & (ssd->nand.page_bytes - 1))
		hsp_spec_fail(spec, "page_bytes is %u, not a power of two", ssd->nand.page_bytes);
	pages_per_block = (uint32_t)hsp_spec_number(spec, "pages_per_block", 2, 4096);
	spare_permyriad = (uint32_t)hsp_spec_number(spec, "over_provisioning_permyriad", 0, 9999);
	slots = (uint32_t)hsp_spec_number(spec, "buffer_pages", 2, 1u << 24);
	ssd->destage_at = slots * (uint32_t)hsp_spec_number(spec, "destage_at_percent", 0, 99) / 100;
	ssd->is_protected = (int)hsp_spec_number(spec, "power_loss_protection", 0, 1);
	ssd->ignores_flush = (int)hsp_spec_word(spec, "flush", FLUSH);
	ssd->writes_through = (int)hsp_spec_word(spec, "write_cache", WRITE_CACHE);
	if (ssd->writes_through && ssd->is_protected)
		hsp_spec_fail(spec, "write_cache is off, but the cache is not volatile");
	read_times(ssd, spec);
	ssd->model.attributes = HSP_DISCARDS;
	if (!ssd->is_protected && !ssd->writes_through)
		ssd->model.attributes |= HSP_VOLATILE_CACHE;
	if (!spec->failed &&
	    hsp_nand_init(&ssd->nand, sectors, pages_per_block, spare_permyriad, slots, ssd->is_protected))
		hsp_spec_fail(spec, "not enough memory for the pages of the model");
	if (spec->failed) {
		ssd_free(&ssd->model);
		return NULL;
	}
	return &ssd->model;
}

HSP_MODEL_KIND("ssd", ssd_new);
