/*
 * Model of a hard disk: an arm, a platter that always rotates, a track buffer with read-ahead, and
 * an optional write cache and command queue.
 *
 * The arm serves one request at a time, in their order or as the queue chooses (queue.h). Cached writes are destaged in elevator order when the disk
 * has been idle for a while or the cache is half full. A started destage is never interrupted.
 */
#include <stdlib.h>

#include "dirty_bitmap.h"
#include "impl.h"
#include "queue.h"
#include "rng.h"
#include "durability.h"
#include "stream.h"

struct disk {
	struct hsp_model model;
	uint64_t command_ns, command_spread_ns, write_settle_ns, link_bytes_per_s, destage_idle_ns;
	uint64_t cache_sectors; /* 0: cache off */
	uint64_t cache_size_sectors; /* of the cache when it is on */

	struct hsp_rng rng;
	struct hsp_durability durability;
	struct hsp_arm arm;
	struct hsp_stream stream;
	struct hsp_queue queue;
	uint64_t now_ns, free_ns, last_command_ns;

	struct hsp_dirty dirty; /* sectors in the cache */
	uint64_t write_through_end_ns; /* end of the last write that bypassed the cache */
	uint64_t busy; /* sectors being destaged until busy_ns */
	uint64_t busy_ns, busy_first, busy_end;
	uint64_t half_full_ns; /* since then more than half of the cache is dirty, or UINT64_MAX */
	uint64_t elevator; /* first sector of the next destage */
};

static struct disk *disk_of(struct hsp_model *model)
{
	return (struct disk *)model;
}

/* --- Platter --------------------------------------------------------------------------------- */

/* Stop read-ahead to use the arm; the buffer keeps its content. Returns when the arm is free. */
static uint64_t stop_read_ahead(struct disk *disk, uint64_t ready_ns)
{
	uint64_t start_ns = hsp_later(ready_ns, disk->free_ns);

	hsp_stream_advance(&disk->stream, start_ns);
	disk->stream.is_running = 0;
	return start_ns;
}

/* Seek, wait for the sector and transfer; returns the end, when the arm is free again. */
static uint64_t access_platter(struct disk *disk, uint64_t start_ns, uint64_t sector, uint64_t end, uint64_t settle_ns)
{
	struct hsp_place place = hsp_place_of(&disk->arm.geometry, sector);
	uint64_t seek_ns = hsp_arm_seek_ns(&disk->arm, &place, settle_ns), rotation_ns;

	disk->arm.at = place;
	rotation_ns = hsp_arm_rotation_ns(&disk->arm, start_ns + seek_ns, &place);
	disk->model.counts.of[HSP_SEEKS]++;
	disk->model.counts.of[HSP_ROTATION_NS] += rotation_ns;
	disk->free_ns = hsp_arm_pass(&disk->arm, start_ns + seek_ns + rotation_ns, sector, end);
	return disk->free_ns;
}

static uint64_t platter_read(struct disk *disk, uint64_t ready_ns, uint64_t sector, uint64_t end)
{
	access_platter(disk, stop_read_ahead(disk, ready_ns), sector, end, 0);
	hsp_stream_begin(&disk->stream, sector, end, disk->free_ns);
	return disk->free_ns;
}

static uint64_t platter_write(struct disk *disk, uint64_t ready_ns, uint64_t sector, uint64_t end)
{
	struct hsp_stream *stream = &disk->stream;
	uint64_t start_ns = stop_read_ahead(disk, ready_ns);

	if (sector < stream->next && end > stream->first) /* the buffer would be stale */
		stream->first = stream->next = 0;
	/* A write needs the arm to be steadier than a read. */
	return access_platter(disk, start_ns, sector, end, disk->write_settle_ns);
}

/* --- Write cache ----------------------------------------------------------------------------- */

/* Write a run of dirty sectors of one track to the platter; returns its end. */
static uint64_t destage(struct disk *disk, uint64_t ready_ns, int promised)
{
	uint64_t first = hsp_dirty_next(&disk->dirty, disk->elevator), end = first + 1, done_ns, start_ns;
	struct hsp_place place = hsp_place_of(&disk->arm.geometry, first);
	uint64_t track_end = first - place.offset + place.track_sectors;

	while (end < track_end && end < disk->model.sectors && hsp_dirty_has(&disk->dirty, end))
		end++;
	start_ns = hsp_later(ready_ns, disk->free_ns);
	hsp_dirty_remove(&disk->dirty, first, end);
	done_ns = platter_write(disk, start_ns, first, end);
	disk->model.counts.of[HSP_SECTORS_DESTAGED] += end - first;
	/* A destage that starts in the future is never undone: a flush that comes now may rely on it. */
	hsp_durability_set_durable(&disk->durability, done_ns, promised || start_ns >= disk->now_ns, first, end - first);
	disk->elevator = end < disk->model.sectors ? end : 0;
	disk->busy = (start_ns < disk->busy_ns ? disk->busy : 0) + end - first;
	disk->busy_ns = done_ns;
	disk->busy_first = first;
	disk->busy_end = end;
	if (disk->dirty.count <= disk->cache_sectors / 2)
		disk->half_full_ns = UINT64_MAX;
	return done_ns;
}

static uint64_t wait_for_room(struct disk *disk, uint64_t now_ns, uint64_t sectors)
{
	while (disk->dirty.count + disk->busy + sectors > disk->cache_sectors) {
		disk->model.counts.of[HSP_CACHE_WAITS]++;
		if (!disk->busy)
			destage(disk, now_ns, 0);
		now_ns = hsp_later(now_ns, disk->busy_ns);
		disk->busy = 0;
	}
	return now_ns;
}

/* --- Reads and writes ------------------------------------------------------------------------ */

static uint64_t link_ns(const struct disk *disk, uint64_t sectors)
{
	return hsp_transfer_ns(sectors * HSP_SECTOR_BYTES, disk->link_bytes_per_s);
}

/* Whether the buffer or the write cache has these sectors. */
static int is_cached(struct disk *disk, uint64_t sector, uint64_t end)
{
	return hsp_stream_has(&disk->stream, sector, end) ||
	       (disk->dirty.count && hsp_dirty_count(&disk->dirty, sector, end) == end - sector);
}

static uint64_t read_sectors(struct disk *disk, uint64_t now_ns, uint64_t sector, uint64_t end)
{
	struct hsp_stream *stream = &disk->stream;
	uint64_t last_ns = link_ns(disk, 1), until_ns, all_ns = link_ns(disk, end - sector);

	if (disk->dirty.count && hsp_dirty_count(&disk->dirty, sector, end) == end - sector) {
		disk->model.counts.of[HSP_CACHE_HITS]++;
		return now_ns + all_ns;
	}
	hsp_stream_advance(&disk->stream, now_ns);
	if (hsp_stream_has(stream, sector, end)) {
		disk->model.counts.of[HSP_CACHE_HITS]++;
		hsp_stream_hit(stream, now_ns, end);
		return now_ns + all_ns;
	}
	if (hsp_stream_comes_to(stream, sector, end)) {
		disk->model.counts.of[HSP_CACHE_HITS]++;
		until_ns = hsp_stream_read_to(stream, end);
		disk->free_ns = hsp_later(disk->free_ns, until_ns);
		return hsp_later(now_ns + all_ns, until_ns + last_ns);
	}
	return hsp_later(now_ns + all_ns, platter_read(disk, now_ns, sector, end) + last_ns);
}

static int is_through(const struct disk *disk, const struct hsp_request *request)
{
	return request->fua || request->sectors > disk->cache_sectors;
}

/* Write past the cache to the platter; cached content of these sectors is dropped. */
static uint64_t write_through(struct disk *disk, uint64_t now_ns, uint64_t sector, uint64_t end)
{
	uint64_t done_ns;

	hsp_dirty_remove(&disk->dirty, sector, end);
	disk->write_through_end_ns = done_ns = platter_write(disk, now_ns, sector, end);
	hsp_durability_set_durable(&disk->durability, done_ns, 1, sector, end - sector);
	return done_ns;
}

static uint64_t write_sectors(struct disk *disk, uint64_t now_ns, const struct hsp_request *request)
{
	uint64_t sector = request->sector, end = sector + request->sectors;

	if (sector < disk->stream.limit && end > disk->stream.first) {
		hsp_stream_advance(&disk->stream, now_ns); /* the arm stays where read-ahead left it */
		hsp_stream_drop(&disk->stream);
	}
	if (request->op == HSP_WRITE)
		now_ns += link_ns(disk, end - sector);
	if (is_through(disk, request))
		return write_through(disk, now_ns, sector, end);
	now_ns = wait_for_room(disk, now_ns, end - sector - hsp_dirty_count(&disk->dirty, sector, end));
	hsp_dirty_add(&disk->dirty, sector, end);
	if (disk->dirty.count > disk->cache_sectors / 2 && disk->half_full_ns == UINT64_MAX)
		disk->half_full_ns = now_ns;
	return now_ns;
}

/* Answer a read or write whose command is processed at now_ns. */
static uint64_t serve(struct disk *disk, uint64_t now_ns, const struct hsp_request *request)
{
	if (request->op == HSP_READ)
		return read_sectors(disk, now_ns, request->sector, request->sector + request->sectors);
	return write_sectors(disk, now_ns, request);
}

/* --- Command queue --------------------------------------------------------------------------- */

static uint64_t positioning_ns(void *of, uint64_t at_ns, const struct hsp_request *request)
{
	struct disk *disk = of;
	struct hsp_place place = hsp_place_of(&disk->arm.geometry, request->sector);
	uint64_t end = request->sector + request->sectors, seek_ns;

	hsp_stream_advance(&disk->stream, at_ns);
	if (request->op == HSP_READ &&
	    (is_cached(disk, request->sector, end) || hsp_stream_comes_to(&disk->stream, request->sector, end)))
		return 0;
	seek_ns = hsp_arm_seek_ns(&disk->arm, &place, request->op == HSP_READ ? 0 : disk->write_settle_ns);
	return seek_ns + hsp_arm_rotation_ns(&disk->arm, at_ns + seek_ns, &place);
}

static void serve_next(struct disk *disk)
{
	uint64_t at_ns = hsp_queue_next_ns(&disk->queue, disk->free_ns);
	struct hsp_queued next = hsp_queue_take(&disk->queue, at_ns, positioning_ns, disk);

	hsp_queue_decide(&disk->queue, next.request.tag, serve(disk, next.ready_ns, &next.request));
}

static uint64_t next_destage_ns(const struct disk *disk)
{
	uint64_t idle_ns = hsp_later(disk->last_command_ns, disk->free_ns) + disk->destage_idle_ns;
	uint64_t full_ns = hsp_later(disk->free_ns, disk->half_full_ns);

	if (!disk->dirty.count)
		return HSP_NEVER;
	return disk->queue.waiting_count || full_ns < idle_ns ? full_ns : idle_ns;
}

static void advance(struct disk *disk, uint64_t now_ns)
{
	for (;;) {
		uint64_t order_ns = hsp_queue_next_ns(&disk->queue, disk->free_ns);
		uint64_t destage_ns = next_destage_ns(disk);

		if (order_ns >= now_ns && destage_ns >= now_ns)
			break;
		if (order_ns <= destage_ns)
			serve_next(disk);
		else
			destage(disk, destage_ns, 0);
	}
	if (disk->busy_ns <= now_ns)
		disk->busy = 0;
}

/*
 * Put a request into the queue if it needs the arm, and that is not free when its command is
 * processed at now_ns. A request that finds the arm free takes it at once.
 */
static int is_queued(struct disk *disk, uint64_t now_ns, const struct hsp_request *request)
{
	struct hsp_queued queued = { *request, now_ns, now_ns };

	if (disk->queue.depth == 1)
		return 0;
	if (request->op == HSP_WRITE)
		queued.start_ns += link_ns(disk, request->sectors);
	if (!disk->queue.waiting_count && disk->free_ns <= queued.start_ns)
		return 0;
	if (request->op == HSP_READ) {
		hsp_stream_advance(&disk->stream, request->arrival_ns);
		if (is_cached(disk, request->sector, request->sector + request->sectors))
			return 0;
	} else if (!is_through(disk, request)) {
		while (hsp_queue_overlaps(&disk->queue, request)) /* rare: the cache must not be older than the platter */
			serve_next(disk);
		return 0;
	}
	hsp_queue_add(&disk->queue, &queued);
	return 1;
}

/* --- Host requests --------------------------------------------------------------------------- */

static uint64_t flush(struct disk *disk, uint64_t now_ns)
{
	/* A flush is not queued: Linux waits for the queued commands first (ata_std_qc_defer, libata-core.c). */
	while (disk->queue.waiting_count) {
		serve_next(disk);
		now_ns = hsp_later(now_ns, disk->free_ns);
	}
	if (disk->busy_ns > now_ns)
		hsp_durability_promise(&disk->durability, disk->busy_ns, disk->busy_first, disk->busy_end - disk->busy_first);
	/* A write past the cache may have replaced content that was in it. */
	now_ns = hsp_later(now_ns, hsp_later(disk->busy_ns, disk->write_through_end_ns));
	while (disk->dirty.count)
		now_ns = hsp_later(now_ns, destage(disk, now_ns, 1));
	return now_ns;
}

static uint64_t disk_submit(struct hsp_model *model, const struct hsp_request *request)
{
	struct disk *disk = disk_of(model);
	uint64_t now_ns = request->arrival_ns;

	disk->now_ns = now_ns;
	advance(disk, now_ns);
	disk->last_command_ns = now_ns;
	now_ns += disk->command_ns + hsp_rng_skewed(&disk->rng, disk->command_spread_ns);
	switch (request->op) {
	case HSP_WRITE:
	case HSP_WRITE_ZEROES:
		hsp_durability_set_volatile(&disk->durability, disk->now_ns, request->sector, request->sectors);
		/* fall through */
	case HSP_READ:
		return is_queued(disk, now_ns, request) ? HSP_LATER : serve(disk, now_ns, request);
	case HSP_FLUSH:
		return flush(disk, now_ns);
	default: /* a disk ignores discards */
		return now_ns;
	}
}

static uint64_t disk_next_ns(const struct hsp_model *model)
{
	const struct disk *disk = (const struct disk *)model;

	return disk->queue.decided_count ? 0 : hsp_queue_next_ns(&disk->queue, disk->free_ns);
}

static int disk_collect(struct hsp_model *model, uint64_t now_ns, uint8_t *tag, uint64_t *done_ns)
{
	disk_of(model)->now_ns = hsp_later(disk_of(model)->now_ns, now_ns);
	advance(disk_of(model), now_ns + 1);
	return hsp_queue_collect(&disk_of(model)->queue, tag, done_ns);
}

/* --- Power loss, saved state, creation ------------------------------------------------------- */

static int disk_is_volatile(struct hsp_model *model, uint64_t now_ns, uint64_t sector)
{
	struct disk *disk = disk_of(model);

	disk->now_ns = now_ns;
	advance(disk, now_ns);
	return hsp_durability_is_volatile(&disk->durability, now_ns, sector);
}

static void disk_power_loss(struct hsp_model *model, uint64_t now_ns)
{
	struct disk *disk = disk_of(model);

	disk->now_ns = now_ns;
	advance(disk, now_ns);
	hsp_stream_advance(&disk->stream, now_ns);
	hsp_dirty_clear(&disk->dirty);
	hsp_durability_clear(&disk->durability);
	hsp_queue_clear(&disk->queue);
	hsp_stream_drop(&disk->stream);
	disk->busy = disk->busy_ns = disk->write_through_end_ns = 0;
	disk->half_full_ns = UINT64_MAX;
	disk->free_ns = disk->last_command_ns = now_ns;
}

static void disk_save(struct hsp_model *model, uint64_t now_ns, struct hsp_state *state)
{
	struct disk *disk = disk_of(model);

	disk->now_ns = now_ns;
	advance(disk, now_ns);
	hsp_stream_advance(&disk->stream, now_ns);
	hsp_state_put(state, disk->rng.state, 8);
	hsp_state_put(state, disk->arm.at.cylinder, 4);
	hsp_state_put(state, disk->arm.at.head, 4);
	hsp_state_put(state, (now_ns + disk->arm.phase_ns) % disk->arm.geometry.rotation_ns, 8);
	hsp_state_put(state, disk->elevator, 8);
}

static void disk_load(struct hsp_model *model, struct hsp_state *state)
{
	struct disk *disk = disk_of(model);

	disk->rng.state = hsp_state_get(state, 8);
	disk->arm.at.cylinder = (uint32_t)hsp_state_get_upto(state, 4, disk->arm.geometry.cylinders - 1);
	disk->arm.at.head = (uint32_t)hsp_state_get_upto(state, 4, disk->arm.geometry.heads - 1);
	disk->arm.phase_ns = hsp_state_get_upto(state, 8, disk->arm.geometry.rotation_ns - 1);
	disk->elevator = hsp_state_get_upto(state, 8, model->sectors - 1);
}

static void disk_write_cache(struct hsp_model *model, int on)
{
	disk_of(model)->cache_sectors = on ? disk_of(model)->cache_size_sectors : 0;
}

static void disk_free(struct hsp_model *model)
{
	struct disk *disk = disk_of(model);

	hsp_durability_free(&disk->durability);
	hsp_dirty_free(&disk->dirty);
	free(disk);
}

static const struct hsp_model_ops DISK_OPS = {
	.submit = disk_submit,
	.next_ns = disk_next_ns,
	.collect = disk_collect,
	.is_volatile = disk_is_volatile,
	.power_loss = disk_power_loss,
	.save = disk_save,
	.load = disk_load,
	.write_cache = disk_write_cache,
	.free = disk_free,
};

static struct hsp_model *disk_new(struct hsp_spec *spec, uint64_t sectors)
{
	const uint64_t max_ns = 4000000000u; /* below 2^32: limit of hsp_rng_skewed */
	struct disk *disk = calloc(1, sizeof(*disk));

	if (!disk) {
		hsp_spec_fail(spec, "no memory for the model");
		return NULL;
	}
	disk->model = (struct hsp_model){ .ops = &DISK_OPS, .sectors = sectors };
	disk->rng.state = hsp_spec_number(spec, "seed", 0, UINT64_MAX);
	hsp_geometry_init(&disk->arm.geometry, spec, sectors);
	disk->command_ns = hsp_spec_number(spec, "command_ns", 0, max_ns);
	disk->command_spread_ns = hsp_spec_number(spec, "command_spread_ns", 0, max_ns);
	disk->write_settle_ns = hsp_spec_number(spec, "write_settle_ns", 0, max_ns);
	disk->link_bytes_per_s = hsp_spec_number(spec, "link_bytes_per_s", 1000, HSP_MAX_BYTES_PER_S);
	disk->stream = (struct hsp_stream){ .arm = &disk->arm, .sectors = sectors };
	disk->stream.buffer_sectors = hsp_spec_number(spec, "track_buffer_bytes", 0, UINT64_C(1) << 40) / HSP_SECTOR_BYTES;
	disk->stream.ahead_sectors = hsp_spec_number(spec, "read_ahead_bytes", 0, UINT64_C(1) << 40) / HSP_SECTOR_BYTES;
	disk->cache_size_sectors = hsp_spec_number(spec, "write_cache_bytes", 0, UINT64_C(1) << 40) / HSP_SECTOR_BYTES;
	disk->cache_sectors = disk->cache_size_sectors;
	disk->destage_idle_ns = hsp_spec_number(spec, "destage_idle_ns", 0, UINT64_C(1) << 50);
	disk->queue.depth = (unsigned)hsp_spec_number_or(spec, "queue_depth", 1, HSP_TAGS, 1);
	if (disk->queue.depth > 1 && spec->prefix[0])
		hsp_spec_fail(spec, "%squeue_depth is above 1: a controller gives its disk one request at a time", spec->prefix);
	disk->model.attributes = HSP_ROTATIONAL | (disk->cache_sectors ? HSP_VOLATILE_CACHE : 0);
	disk->half_full_ns = UINT64_MAX;
	if (!spec->failed) {
		disk->arm.at = hsp_place_of(&disk->arm.geometry, 0);
		disk->arm.phase_ns = hsp_rng_next(&disk->rng) % disk->arm.geometry.rotation_ns;
		if (hsp_dirty_init(&disk->dirty, sectors) || hsp_durability_init(&disk->durability, sectors))
			hsp_spec_fail(spec, "no memory for the model");
	}
	if (spec->failed) {
		disk_free(&disk->model);
		return NULL;
	}
	return &disk->model;
}

HSP_MODEL_KIND("disk", disk_new);
