/*
 * Model of a hard disk: an arm, a platter that always rotates, a track buffer with read-ahead, and
 * an optional write cache.
 *
 * The arm serves one request at a time. Cached writes are destaged in elevator order when the disk
 * has been idle for a while or the cache is half full. A started destage is never interrupted.
 */
#include <stdlib.h>

#include "dirty_bitmap.h"
#include "geometry.h"
#include "impl.h"
#include "rng.h"
#include "durability.h"

/* Read-ahead: [first, next) is in the track buffer, `next` passes under the head at next_ns, `limit` ends it. */
struct stream {
	uint64_t first, next, limit;
	uint64_t next_ns, read_ns; /* end of the last sector read */
	int is_running; /* the arm is still on the stream */
};

struct disk {
	struct hsp_model model;
	struct hsp_geometry geometry;
	uint64_t command_ns, command_spread_ns, write_settle_ns, link_bytes_per_s, destage_idle_ns;
	uint64_t buffer_sectors, read_ahead_sectors, cache_sectors; /* cache_sectors 0: cache off */
	uint64_t cache_size_sectors; /* of the cache when it is on */

	struct hsp_rng rng;
	struct hsp_durability durability;
	struct stream stream;
	struct hsp_place arm;
	uint64_t phase_ns; /* rotation of the platter at time 0 */
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

/* --- Arm and platter ------------------------------------------------------------------------- */

static uint64_t rotation_delay_ns(const struct disk *disk, uint64_t now_ns, const struct hsp_place *place)
{
	uint64_t rotation_ns = disk->geometry.rotation_ns, at_ns = (now_ns + disk->phase_ns) % rotation_ns;

	return (hsp_angle_ns(&disk->geometry, place) + rotation_ns - at_ns) % rotation_ns;
}

/* Move the arm to the track and wait for the sector; returns when it is under the head. */
static uint64_t seek_and_rotate(struct disk *disk, uint64_t now_ns, const struct hsp_place *place)
{
	now_ns += hsp_seek_ns(&disk->geometry, &disk->arm, place);
	disk->arm = *place;
	return now_ns + rotation_delay_ns(disk, now_ns, place);
}

/* Pass the sectors under the head, track by track; returns the end of the last one. */
static uint64_t transfer_sectors(struct disk *disk, uint64_t now_ns, uint64_t sector, uint64_t end)
{
	while (sector < end) {
		struct hsp_place place = hsp_place_of(&disk->geometry, sector);
		uint64_t rest = place.track_sectors - place.offset;
		uint32_t sectors = (uint32_t)(rest < end - sector ? rest : end - sector);

		now_ns = seek_and_rotate(disk, now_ns, &place);
		now_ns += hsp_offset_ns(&disk->geometry, &place, place.offset + sectors) -
			  hsp_offset_ns(&disk->geometry, &place, place.offset);
		sector += sectors;
	}
	return now_ns;
}

/* Advance read-ahead to a time, or to its limit. */
static void advance_read_ahead(struct disk *disk, uint64_t until_ns)
{
	struct stream *stream = &disk->stream;
	uint64_t rotation_ns = disk->geometry.rotation_ns;

	while (stream->is_running && stream->next < stream->limit && stream->next_ns < until_ns) {
		struct hsp_place place = hsp_place_of(&disk->geometry, stream->next);
		uint64_t time_ns = until_ns - stream->next_ns, sectors = place.track_sectors - place.offset;
		uint64_t passed = (time_ns < rotation_ns ? time_ns : rotation_ns) * place.track_sectors / rotation_ns;
		uint64_t left = stream->limit - stream->next;

		sectors = sectors < left ? sectors : left;
		if (passed < sectors)
			sectors = passed;
		if (!sectors)
			break;
		disk->arm = place;
		stream->next_ns += hsp_offset_ns(&disk->geometry, &place, place.offset + (uint32_t)sectors) -
				   hsp_offset_ns(&disk->geometry, &place, place.offset);
		stream->next += sectors;
		stream->read_ns = stream->next_ns;
		if (place.offset + sectors == place.track_sectors && stream->next < disk->model.sectors) {
			place = hsp_place_of(&disk->geometry, stream->next);
			stream->next_ns = seek_and_rotate(disk, stream->next_ns, &place);
		}
	}
	if (stream->next - stream->first > disk->buffer_sectors)
		stream->first = stream->next - disk->buffer_sectors;
}

/* Advance read-ahead to the sector `end`, which is within its limit; returns when that is read. */
static uint64_t read_ahead_to(struct disk *disk, uint64_t end)
{
	uint64_t limit = disk->stream.limit;

	disk->stream.limit = end;
	advance_read_ahead(disk, UINT64_MAX);
	disk->stream.limit = limit;
	return disk->stream.read_ns;
}

static void set_limit(struct disk *disk, uint64_t end)
{
	uint64_t limit = end + disk->read_ahead_sectors;

	disk->stream.limit = limit < disk->model.sectors ? limit : disk->model.sectors;
}

/* Stop read-ahead to use the arm; the buffer keeps its content. Returns when the arm is free. */
static uint64_t stop_read_ahead(struct disk *disk, uint64_t ready_ns)
{
	uint64_t start_ns = hsp_later(ready_ns, disk->free_ns);

	advance_read_ahead(disk, start_ns);
	disk->stream.is_running = 0;
	return start_ns;
}

/* Seek, wait for the sector and transfer; returns the end, when the arm is free again. */
static uint64_t access_platter(struct disk *disk, uint64_t start_ns, uint64_t sector, uint64_t end, uint64_t settle_ns)
{
	struct hsp_place place = hsp_place_of(&disk->geometry, sector);
	uint64_t seek_ns = hsp_seek_ns(&disk->geometry, &disk->arm, &place), rotation_ns;

	if (disk->arm.cylinder != place.cylinder)
		seek_ns += settle_ns;
	disk->arm = place;
	rotation_ns = rotation_delay_ns(disk, start_ns + seek_ns, &place);
	disk->model.counts.of[HSP_SEEKS]++;
	disk->model.counts.of[HSP_ROTATION_NS] += rotation_ns;
	disk->free_ns = transfer_sectors(disk, start_ns + seek_ns + rotation_ns, sector, end);
	return disk->free_ns;
}

static uint64_t platter_read(struct disk *disk, uint64_t ready_ns, uint64_t sector, uint64_t end)
{
	access_platter(disk, stop_read_ahead(disk, ready_ns), sector, end, 0);
	disk->stream =
		(struct stream){ .first = sector, .next = end, .next_ns = disk->free_ns, .is_running = 1 };
	set_limit(disk, end);
	if (end < disk->model.sectors) {
		struct hsp_place place = hsp_place_of(&disk->geometry, end);

		disk->stream.next_ns = seek_and_rotate(disk, disk->free_ns, &place);
	}
	return disk->free_ns;
}

static uint64_t platter_write(struct disk *disk, uint64_t ready_ns, uint64_t sector, uint64_t end)
{
	struct stream *stream = &disk->stream;
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
	struct hsp_place place = hsp_place_of(&disk->geometry, first);
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

static void advance(struct disk *disk, uint64_t now_ns)
{
	while (disk->dirty.count) {
		uint64_t idle_ns = hsp_later(disk->last_command_ns, disk->free_ns) + disk->destage_idle_ns;
		uint64_t ready_ns = hsp_later(disk->free_ns, disk->half_full_ns);

		ready_ns = ready_ns < idle_ns ? ready_ns : idle_ns;
		if (ready_ns >= now_ns)
			break;
		destage(disk, ready_ns, 0);
	}
	if (disk->busy_ns <= now_ns)
		disk->busy = 0;
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

/* --- Host requests --------------------------------------------------------------------------- */

static uint64_t link_ns(const struct disk *disk, uint64_t sectors)
{
	return hsp_transfer_ns(sectors * HSP_SECTOR_BYTES, disk->link_bytes_per_s);
}

static uint64_t read_sectors(struct disk *disk, uint64_t now_ns, uint64_t sector, uint64_t end)
{
	struct stream *stream = &disk->stream;
	uint64_t last_ns = link_ns(disk, 1), until_ns, all_ns = link_ns(disk, end - sector);

	if (disk->dirty.count && hsp_dirty_count(&disk->dirty, sector, end) == end - sector) {
		disk->model.counts.of[HSP_CACHE_HITS]++;
		return now_ns + all_ns;
	}
	advance_read_ahead(disk, now_ns);
	if (sector >= stream->first && end <= stream->next) {
		disk->model.counts.of[HSP_CACHE_HITS]++;
		if (stream->is_running && stream->next == stream->limit && end + disk->read_ahead_sectors > stream->limit &&
		    stream->next < disk->model.sectors) {
			/* It had stopped at its limit, and continues when its next sector comes round. */
			struct hsp_place place = hsp_place_of(&disk->geometry, stream->next);

			stream->next_ns = hsp_later(stream->next_ns, now_ns);
			stream->next_ns += rotation_delay_ns(disk, stream->next_ns, &place);
		}
		if (stream->limit < end + disk->read_ahead_sectors)
			set_limit(disk, end);
		return now_ns + all_ns;
	}
	if (stream->is_running && sector >= stream->first && sector <= stream->next && stream->next < stream->limit &&
	    end <= stream->limit) {
		disk->model.counts.of[HSP_CACHE_HITS]++;
		until_ns = read_ahead_to(disk, end);
		disk->free_ns = hsp_later(disk->free_ns, until_ns);
		set_limit(disk, end);
		return hsp_later(now_ns + all_ns, until_ns + last_ns);
	}
	return hsp_later(now_ns + all_ns, platter_read(disk, now_ns, sector, end) + last_ns);
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

	hsp_durability_set_volatile(&disk->durability, disk->now_ns, sector, end - sector);
	if (sector < disk->stream.limit && end > disk->stream.first) {
		advance_read_ahead(disk, now_ns); /* the arm stays where read-ahead left it */
		disk->stream = (struct stream){ 0 };
	}
	if (request->op == HSP_WRITE)
		now_ns += link_ns(disk, end - sector);
	if (request->fua || end - sector > disk->cache_sectors)
		return write_through(disk, now_ns, sector, end);
	now_ns = wait_for_room(disk, now_ns, end - sector - hsp_dirty_count(&disk->dirty, sector, end));
	hsp_dirty_add(&disk->dirty, sector, end);
	if (disk->dirty.count > disk->cache_sectors / 2 && disk->half_full_ns == UINT64_MAX)
		disk->half_full_ns = now_ns;
	return now_ns;
}

static uint64_t flush(struct disk *disk, uint64_t now_ns)
{
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
	case HSP_READ:
		return read_sectors(disk, now_ns, request->sector, request->sector + request->sectors);
	case HSP_WRITE:
	case HSP_WRITE_ZEROES:
		return write_sectors(disk, now_ns, request);
	case HSP_FLUSH:
		return flush(disk, now_ns);
	default: /* a disk ignores discards */
		return now_ns;
	}
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
	advance_read_ahead(disk, now_ns);
	hsp_dirty_clear(&disk->dirty);
	hsp_durability_clear(&disk->durability);
	disk->stream = (struct stream){ 0 };
	disk->busy = disk->busy_ns = disk->write_through_end_ns = 0;
	disk->half_full_ns = UINT64_MAX;
	disk->free_ns = disk->last_command_ns = now_ns;
}

static void disk_save(struct hsp_model *model, uint64_t now_ns, struct hsp_state *state)
{
	struct disk *disk = disk_of(model);

	disk->now_ns = now_ns;
	advance(disk, now_ns);
	advance_read_ahead(disk, now_ns);
	hsp_state_put(state, disk->rng.state, 8);
	hsp_state_put(state, disk->arm.cylinder, 4);
	hsp_state_put(state, disk->arm.head, 4);
	hsp_state_put(state, (now_ns + disk->phase_ns) % disk->geometry.rotation_ns, 8);
	hsp_state_put(state, disk->elevator, 8);
}

static void disk_load(struct hsp_model *model, struct hsp_state *state)
{
	struct disk *disk = disk_of(model);

	disk->rng.state = hsp_state_get(state, 8);
	disk->arm.cylinder = (uint32_t)hsp_state_get_upto(state, 4, disk->geometry.cylinders - 1);
	disk->arm.head = (uint32_t)hsp_state_get_upto(state, 4, disk->geometry.heads - 1);
	disk->phase_ns = hsp_state_get_upto(state, 8, disk->geometry.rotation_ns - 1);
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
	hsp_geometry_init(&disk->geometry, spec, sectors);
	disk->command_ns = hsp_spec_number(spec, "command_ns", 0, max_ns);
	disk->command_spread_ns = hsp_spec_number(spec, "command_spread_ns", 0, max_ns);
	disk->write_settle_ns = hsp_spec_number(spec, "write_settle_ns", 0, max_ns);
	disk->link_bytes_per_s = hsp_spec_number(spec, "link_bytes_per_s", 1000, HSP_MAX_BYTES_PER_S);
	disk->buffer_sectors = hsp_spec_number(spec, "track_buffer_bytes", 0, UINT64_C(1) << 40) / HSP_SECTOR_BYTES;
	disk->read_ahead_sectors = hsp_spec_number(spec, "read_ahead_bytes", 0, UINT64_C(1) << 40) / HSP_SECTOR_BYTES;
	disk->cache_size_sectors = hsp_spec_number(spec, "write_cache_bytes", 0, UINT64_C(1) << 40) / HSP_SECTOR_BYTES;
	disk->cache_sectors = disk->cache_size_sectors;
	disk->destage_idle_ns = hsp_spec_number(spec, "destage_idle_ns", 0, UINT64_C(1) << 50);
	disk->model.attributes = HSP_ROTATIONAL | (disk->cache_sectors ? HSP_VOLATILE_CACHE : 0);
	disk->half_full_ns = UINT64_MAX;
	if (!spec->failed) {
		disk->arm = hsp_place_of(&disk->geometry, 0);
		disk->phase_ns = hsp_rng_next(&disk->rng) % disk->geometry.rotation_ns;
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
