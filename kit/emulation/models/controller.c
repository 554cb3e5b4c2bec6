/*
 * Model of a RAID controller in front of a device. Bypass: it forwards every request. Battery: it
 * puts writes into a cache and destages them later, in elevator order, one at a time. Write-through:
 * it forwards every write, and keeps what was written and read to answer reads.
 *
 * The cache has lines of 4 KiB with a dirty bit per sector. Its content is never volatile. Destage
 * writes use FUA, because the drive's own cache has no battery.
 *
 * Read-ahead starts when the two most recent reads are of sectors in order (adaptive read-ahead;
 * Dell OpenManage Server Administrator, User's Guide: RAID controller read, write, cache and disk
 * cache policy, which has write-through too). The next piece is read when the reader comes to the
 * last one, as Linux does it (page_cache_async_ra, mm/readahead.c). What was read ahead is kept in the part
 * of the cache that dirty lines leave free.
 */
#include <stdlib.h>

#include "impl.h"
#include "line_cache.h"
#include "rng.h"

enum { LINE_SECTORS = HSP_LINE_SECTORS, MAX_RUN_LINES = 32 };

/* Read ahead: it is in the cache from done_ns on. */
struct piece {
	uint64_t first, end, done_ns;
};

struct controller {
	struct hsp_model model;
	struct hsp_model *backing;
	uint64_t command_ns, command_spread_ns, link_bytes_per_s, destage_idle_ns;
	uint64_t cache_lines, read_ahead_sectors;
	enum { BYPASS, BATTERY, WRITE_THROUGH } cache;
	int keeps_reads;

	struct hsp_rng rng;
	uint8_t *dirty; /* per line: bits of the dirty sectors */
	uint64_t lines, dirty_lines, busy_lines, elevator;
	uint64_t busy_ns; /* end of the destage write in progress */
	struct hsp_request busy; /* that write */
	uint64_t last_command_ns, passed_ns, link_free_ns;

	struct hsp_line_cache kept; /* for reads, if keeps_reads */
	struct piece ahead[2]; /* the newest last */
	uint64_t read_end; /* of the last read of the host, or UINT64_MAX */
};

static struct controller *controller_of(struct hsp_model *model)
{
	return (struct controller *)model;
}

/* Submit to the backing device; its arrivals must not decrease either. */
static uint64_t forward(struct controller *controller, struct hsp_request request, uint64_t now_ns)
{
	controller->passed_ns = request.arrival_ns = hsp_later(now_ns, controller->passed_ns);
	return controller->backing->ops->submit(controller->backing, &request);
}

/* --- Cache ----------------------------------------------------------------------------------- */

static uint64_t next_dirty(const struct controller *controller)
{
	uint64_t line = controller->elevator;

	while (!controller->dirty[line])
		line = line + 1 < controller->lines ? line + 1 : 0;
	return line;
}

/* Write a run of dirty sectors to the backing device; returns its end. */
static uint64_t destage(struct controller *controller, uint64_t now_ns)
{
	uint64_t line = next_dirty(controller), end = line + 1;
	unsigned first = (unsigned)__builtin_ctz(controller->dirty[line]);
	uint8_t from_first = (uint8_t)(controller->dirty[line] >> first);
	unsigned length = (unsigned)__builtin_ctz(~(unsigned)from_first);
	struct hsp_request request = { .op = HSP_WRITE, .fua = 1, .sector = line * LINE_SECTORS + first };

	controller->dirty[line] = (uint8_t)(controller->dirty[line] & ~(((1u << length) - 1) << first));
	request.sectors = length;
	if (first + length == LINE_SECTORS) /* continue through lines that are completely dirty */
		while (end < controller->lines && end < line + MAX_RUN_LINES && controller->dirty[end] == 0xFF) {
			controller->dirty[end++] = 0;
			request.sectors += LINE_SECTORS;
		}
	controller->busy_lines = end - line;
	/* A line with dirty sectors left stays dirty and is not counted as busy too. */
	controller->dirty_lines -= end - line - (controller->dirty[line] != 0);
	controller->busy_lines -= controller->dirty[line] != 0;
	controller->elevator = controller->dirty[line] ? line : end < controller->lines ? end : 0;
	controller->model.counts.of[HSP_SECTORS_DESTAGED] += request.sectors;
	controller->busy = request;
	controller->busy_ns = forward(controller, request, now_ns);
	return controller->busy_ns;
}

static void advance(struct controller *controller, uint64_t now_ns)
{
	while (controller->dirty_lines) {
		uint64_t ready_ns = controller->busy_ns;

		if (controller->dirty_lines <= controller->cache_lines / 2)
			ready_ns = hsp_later(ready_ns, controller->last_command_ns + controller->destage_idle_ns);
		if (ready_ns >= now_ns)
			break;
		destage(controller, ready_ns);
	}
	if (controller->busy_ns <= now_ns)
		controller->busy_lines = 0;
}

static uint64_t wait_for_line(struct controller *controller, uint64_t now_ns)
{
	if (controller->busy_ns <= now_ns)
		controller->busy_lines = 0;
	while (controller->dirty_lines + controller->busy_lines >= controller->cache_lines) {
		controller->model.counts.of[HSP_CACHE_WAITS]++;
		if (!controller->busy_lines)
			destage(controller, now_ns);
		now_ns = hsp_later(now_ns, controller->busy_ns);
		controller->busy_lines = 0;
	}
	return now_ns;
}

/* Power loss during a destage write: its sectors are still in the cache. */
static void restore_busy_lines(struct controller *controller, uint64_t now_ns)
{
	uint64_t sector = controller->busy.sector, end = sector + controller->busy.sectors;

	if (controller->busy_ns <= now_ns)
		return;
	for (uint64_t line = sector / LINE_SECTORS; line * LINE_SECTORS < end; line++) {
		controller->dirty_lines += !controller->dirty[line];
		controller->dirty[line] |= hsp_line_mask(line, sector, end);
	}
	controller->busy_lines = 0;
	controller->busy_ns = now_ns;
}

static int is_cached(const struct controller *controller, uint64_t sector, uint64_t end)
{
	if (!controller->dirty_lines && !controller->kept.count)
		return 0;
	for (uint64_t line = sector / LINE_SECTORS; line * LINE_SECTORS < end; line++) {
		unsigned bits = controller->dirty[line] | (controller->keeps_reads ? controller->kept.bits[line] : 0u);

		if (hsp_line_mask(line, sector, end) & ~bits)
			return 0;
	}
	return 1;
}

/* Keep sectors for reads, as the newest, where dirty lines leave room. */
static void keep(struct controller *controller, uint64_t sector, uint64_t end)
{
	uint64_t dirty = controller->dirty_lines + controller->busy_lines;

	if (!controller->keeps_reads)
		return;
	for (uint64_t line = sector / LINE_SECTORS; line * LINE_SECTORS < end; line++)
		hsp_line_cache_add(&controller->kept, line, hsp_line_mask(line, sector, end));
	hsp_line_cache_shrink(&controller->kept, controller->cache_lines > dirty ? controller->cache_lines - dirty : 0);
}

static void forget_kept(struct controller *controller)
{
	hsp_line_cache_clear(&controller->kept);
	controller->ahead[0] = controller->ahead[1] = (struct piece){ 0 };
	controller->read_end = UINT64_MAX;
}

static uint64_t write_to_cache(struct controller *controller, uint64_t now_ns, uint64_t sector, uint64_t end)
{
	for (uint64_t line = sector / LINE_SECTORS; line * LINE_SECTORS < end; line++) {
		if (!controller->dirty[line]) {
			now_ns = wait_for_line(controller, now_ns);
			controller->dirty_lines++;
		}
		controller->dirty[line] |= hsp_line_mask(line, sector, end);
	}
	keep(controller, sector, sector); /* nothing more, but dirty lines take its room */
	return now_ns;
}

static void drop_from_cache(struct controller *controller, uint64_t sector, uint64_t end)
{
	for (uint64_t line = sector / LINE_SECTORS; line * LINE_SECTORS < end; line++) {
		uint8_t before = controller->dirty[line];

		controller->dirty[line] = (uint8_t)(before & ~hsp_line_mask(line, sector, end));
		controller->dirty_lines -= before && !controller->dirty[line];
		if (controller->keeps_reads)
			hsp_line_cache_remove(&controller->kept, line, hsp_line_mask(line, sector, end));
	}
}

/* Read on, after a read that ended at `end`. */
static void read_ahead(struct controller *controller, uint64_t now_ns, uint64_t end)
{
	const struct piece *last = &controller->ahead[1];
	struct hsp_request request = { .op = HSP_READ, .sector = end };
	uint64_t left;

	if (controller->ahead[0].end == last->first && end >= controller->ahead[0].first && end <= last->first)
		return; /* the reader has not come to the last piece */
	if (end > last->first && end <= last->end)
		request.sector = last->end;
	left = controller->model.sectors - request.sector;
	request.sectors = (uint32_t)(controller->read_ahead_sectors < left ? controller->read_ahead_sectors : left);
	if (!request.sectors)
		return;
	controller->ahead[0] = *last;
	controller->ahead[1] = (struct piece){ request.sector, request.sector + request.sectors, 0 };
	controller->ahead[1].done_ns = forward(controller, request, now_ns);
	keep(controller, request.sector, request.sector + request.sectors);
}

/* Read from the cache or the device; returns when the controller has the data. */
static uint64_t read_sectors(struct controller *controller, const struct hsp_request *request, uint64_t now_ns)
{
	uint64_t sector = request->sector, end = sector + request->sectors, done_ns = now_ns;

	if (is_cached(controller, sector, end)) {
		controller->model.counts.of[HSP_CACHE_HITS]++;
		for (const struct piece *piece = controller->ahead; piece < controller->ahead + 2; piece++)
			if (sector < piece->end && end > piece->first)
				done_ns = hsp_later(done_ns, piece->done_ns);
	} else {
		done_ns = forward(controller, *request, now_ns);
	}
	keep(controller, sector, end);
	if (controller->read_ahead_sectors && sector == controller->read_end)
		read_ahead(controller, now_ns, end);
	controller->read_end = end;
	return done_ns;
}

/* --- Host requests --------------------------------------------------------------------------- */

static uint64_t over_link(struct controller *controller, uint64_t now_ns, uint64_t sectors)
{
	controller->link_free_ns = hsp_later(now_ns, controller->link_free_ns) +
				   hsp_transfer_ns(sectors * HSP_SECTOR_BYTES, controller->link_bytes_per_s);
	return controller->link_free_ns;
}

static uint64_t submit_cached(struct controller *controller, const struct hsp_request *request, uint64_t now_ns)
{
	uint64_t sector = request->sector, end = sector + request->sectors;
	struct hsp_request durable = *request;

	durable.fua = 1; /* the drive's cache has no battery */
	switch (request->op) {
	case HSP_WRITE:
		now_ns = over_link(controller, now_ns, request->sectors);
		return write_to_cache(controller, now_ns, sector, end);
	case HSP_READ:
		return over_link(controller, read_sectors(controller, request, now_ns), request->sectors);
	case HSP_FLUSH: /* the cache is not volatile */
		return now_ns;
	default:
		drop_from_cache(controller, sector, end);
		return forward(controller, durable, now_ns);
	}
}

/* The same arrival at device and controller, so that both agree on what is volatile when. */
static uint64_t submit_forwarded(struct controller *controller, const struct hsp_request *request, uint64_t now_ns)
{
	uint64_t sector = request->sector, end = sector + request->sectors;

	if (controller->cache == BYPASS)
		return forward(controller, *request, now_ns);
	if (request->op == HSP_READ)
		return read_sectors(controller, request, now_ns);
	if (request->op == HSP_WRITE)
		keep(controller, sector, end);
	else
		drop_from_cache(controller, sector, end);
	return forward(controller, *request, now_ns);
}

static uint64_t controller_submit(struct hsp_model *model, const struct hsp_request *request)
{
	struct controller *controller = controller_of(model);
	uint64_t now_ns = request->arrival_ns;
	uint64_t command_ns = controller->command_ns + hsp_rng_skewed(&controller->rng, controller->command_spread_ns);

	if (controller->cache == BATTERY) {
		advance(controller, now_ns);
		controller->last_command_ns = now_ns;
		return submit_cached(controller, request, now_ns + command_ns);
	}
	now_ns = submit_forwarded(controller, request, now_ns) + command_ns;
	return request->op == HSP_READ || request->op == HSP_WRITE ? over_link(controller, now_ns, request->sectors) :
								     now_ns;
}

/* --- Power loss, saved state, creation ------------------------------------------------------- */

static int controller_is_volatile(struct hsp_model *model, uint64_t now_ns, uint64_t sector)
{
	struct controller *controller = controller_of(model);

	if (controller->cache == BATTERY)
		return 0;
	return controller->backing->ops->is_volatile(controller->backing, now_ns, sector);
}

static void controller_power_loss(struct hsp_model *model, uint64_t now_ns)
{
	struct controller *controller = controller_of(model);

	advance(controller, now_ns);
	restore_busy_lines(controller, now_ns);
	controller->backing->ops->power_loss(controller->backing, now_ns);
	forget_kept(controller);
	controller->busy_lines = 0;
	controller->busy_ns = controller->last_command_ns = controller->link_free_ns = now_ns;
	controller->passed_ns = now_ns;
}

static void controller_save(struct hsp_model *model, uint64_t now_ns, struct hsp_state *state)
{
	struct controller *controller = controller_of(model);

	advance(controller, now_ns);
	hsp_state_put(state, controller->rng.state, 8);
	hsp_state_put(state, controller->elevator, 8);
	for (uint64_t line = 0; controller->cache == BATTERY && line < controller->lines; line++) {
		uint64_t sector = controller->busy.sector, end = sector + controller->busy.sectors;
		uint8_t busy = controller->busy_ns > now_ns ? hsp_line_mask(line, sector, end) : 0;

		hsp_state_put(state, controller->dirty[line] | busy, 1);
	}
	for (unsigned i = 0; i < HSP_COUNTS; i++)
		hsp_state_put(state, controller->backing->counts.of[i], 8);
	controller->backing->ops->save(controller->backing, now_ns, state);
}

static void controller_load(struct hsp_model *model, struct hsp_state *state)
{
	struct controller *controller = controller_of(model);

	controller->rng.state = hsp_state_get(state, 8);
	controller->elevator = hsp_state_get_upto(state, 8, controller->lines - 1);
	for (uint64_t line = 0; controller->cache == BATTERY && line < controller->lines; line++) {
		controller->dirty[line] = (uint8_t)hsp_state_get_upto(state, 1, hsp_line_mask(line, 0, model->sectors));
		controller->dirty_lines += controller->dirty[line] != 0;
	}
	for (unsigned i = 0; i < HSP_COUNTS; i++)
		controller->backing->counts.of[i] = hsp_state_get(state, 8);
	if (!state->failed)
		controller->backing->ops->load(controller->backing, state);
}

static const struct hsp_counts *controller_inner(const struct hsp_model *model)
{
	return &((const struct controller *)model)->backing->counts;
}

/* Of the device behind a controller that forwards everything. */
static void controller_write_cache(struct hsp_model *model, int on)
{
	struct hsp_model *backing = controller_of(model)->backing;

	backing->ops->write_cache(backing, on);
}

static void controller_free(struct hsp_model *model)
{
	struct controller *controller = controller_of(model);

	if (controller->backing)
		controller->backing->ops->free(controller->backing);
	hsp_line_cache_free(&controller->kept);
	free(controller->dirty);
	free(controller);
}

static const struct hsp_model_ops CONTROLLER_OPS = {
	.submit = controller_submit,
	.is_volatile = controller_is_volatile,
	.power_loss = controller_power_loss,
	.save = controller_save,
	.load = controller_load,
	.inner = controller_inner,
	.write_cache = controller_write_cache,
	.free = controller_free,
};

static struct hsp_model *controller_new(struct hsp_spec *spec, uint64_t sectors)
{
	static const char *const CACHE[] = { "bypass", "battery", "write-through", NULL };
	const uint64_t max_ns = 4000000000u; /* below 2^32: limit of hsp_rng_skewed */
	struct controller *controller;

	if (spec->prefix[0]) {
		hsp_spec_fail(spec, "a controller behind a controller is not supported");
		return NULL;
	}
	controller = calloc(1, sizeof(*controller));
	if (!controller) {
		hsp_spec_fail(spec, "no memory for the model");
		return NULL;
	}
	controller->model = (struct hsp_model){ .ops = &CONTROLLER_OPS, .sectors = sectors };
	controller->rng.state = hsp_spec_number(spec, "seed", 0, UINT64_MAX);
	controller->cache = hsp_spec_word(spec, "cache", CACHE);
	controller->command_ns = hsp_spec_number(spec, "command_ns", 0, max_ns);
	controller->command_spread_ns = hsp_spec_number(spec, "command_spread_ns", 0, max_ns);
	controller->link_bytes_per_s = hsp_spec_number(spec, "link_bytes_per_s", 1000, HSP_MAX_BYTES_PER_S);
	controller->cache_lines = hsp_spec_number(spec, "cache_bytes", 4096, UINT64_C(1) << 40) / 4096;
	controller->destage_idle_ns = hsp_spec_number(spec, "destage_idle_ns", 0, UINT64_C(1) << 50);
	controller->lines = (sectors + LINE_SECTORS - 1) / LINE_SECTORS;
	controller->dirty = calloc(controller->lines, 1);
	controller->read_ahead_sectors =
		hsp_spec_number_or(spec, "read_ahead_bytes", 0, UINT64_C(1) << 40, 0) / HSP_SECTOR_BYTES;
	controller->read_end = UINT64_MAX;
	if (controller->read_ahead_sectors > controller->cache_lines * LINE_SECTORS / 2)
		hsp_spec_fail(spec, "read_ahead_bytes is more than half of cache_bytes");
	if (controller->read_ahead_sectors && controller->cache == BYPASS)
		hsp_spec_fail(spec, "read_ahead_bytes needs a cache, and \"bypass\" has none");
	controller->keeps_reads = controller->cache == WRITE_THROUGH || controller->read_ahead_sectors;
	if (!controller->dirty || (controller->keeps_reads && hsp_line_cache_init(&controller->kept, controller->lines)))
		hsp_spec_fail(spec, "no memory for the model");
	spec->prefix = "backing.";
	if (!spec->failed)
		controller->backing = hsp_model_new(spec, sectors);
	spec->prefix = "";
	if (spec->failed || !controller->backing) {
		controller_free(&controller->model);
		return NULL;
	}
	controller->model.attributes = controller->cache == BATTERY ?
					       controller->backing->attributes & ~(unsigned)HSP_VOLATILE_CACHE :
					       controller->backing->attributes;
	return &controller->model;
}

HSP_MODEL_KIND("controller", controller_new);
