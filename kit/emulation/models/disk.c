/*
 * A disk: an arm, a platter that turns whether or not anybody waits, a track buffer that reads on
 * after a read, and a write cache that may be off.
 *
 * One request at a time has the arm. Cached writes go to the platter in elevator order, when no
 * request has come for a while or the cache is half full; what has begun is finished.
 */
#include <stdlib.h>

#include "dirty_bitmap.h"
#include "geometry.h"
#include "impl.h"
#include "rng.h"
#include "durability.h"

/* Reading on: [first, next) is in the buffer, `next` passes under the head at next_ns, and so on to `limit`. */
struct stream {
	uint64_t first, next, limit;
	uint64_t next_ns, read_ns; /* when the last sector had passed */
	int is_running; /* the head is still there */
};

struct disk {
	struct hsp_model model;
	struct hsp_geometry geometry;
	uint64_t command_ns, command_spread_ns, write_settle_ns, link_bytes_per_s, destage_idle_ns;
	uint64_t buffer_sectors, read_ahead_sectors, cache_sectors; /* cache: 0 if it is off */

	struct hsp_rng rng;
	struct hsp_safety safety;
	struct stream stream;
	struct hsp_place arm;
	uint64_t phase_ns; /* of the platter at time 0 */
	uint64_t now_ns, free_ns, last_command_ns;

	struct hsp_dirty dirty; /* waits in the cache */
	uint64_t through_ns; /* until when a write past the cache is under way */
	uint64_t busy; /* sectors on their way to the platter until busy_ns */
	uint64_t busy_ns, busy_first, busy_end;
	uint64_t pressed_ns; /* since when the cache is half full, or UINT64_MAX */
	uint64_t elevator; /* sector to go on from */
};

static struct disk *disk_of(struct hsp_model *model)
{
	return (struct disk *)model;
}

static void count(struct disk *disk, enum hsp_count what, uint64_t by)
{
	disk->model.counts.of[what] += by;
}

/* --- Arm and platter ------------------------------------------------------------------------- */

static uint64_t turn_to_ns(const struct disk *disk, uint64_t now_ns, const struct hsp_place *place)
{
	uint64_t turn_ns = disk->geometry.turn_ns, at_ns = (now_ns + disk->phase_ns) % turn_ns;

	return (hsp_angle_ns(&disk->geometry, place) + turn_ns - at_ns) % turn_ns;
}

/* The arm goes to the place, and the platter turns until it begins. */
static uint64_t reach(struct disk *disk, uint64_t now_ns, const struct hsp_place *place)
{
	now_ns += hsp_seek_ns(&disk->geometry, &disk->arm, place);
	disk->arm = *place;
	return now_ns + turn_to_ns(disk, now_ns, place);
}

/* Sectors pass under the head, from track to track; when the last one has. */
static uint64_t pass(struct disk *disk, uint64_t now_ns, uint64_t sector, uint64_t end)
{
	while (sector < end) {
		struct hsp_place place = hsp_place_of(&disk->geometry, sector);
		uint64_t rest = place.track_sectors - place.offset;
		uint32_t sectors = (uint32_t)(rest < end - sector ? rest : end - sector);

		now_ns = reach(disk, now_ns, &place);
		now_ns += hsp_offset_ns(&disk->geometry, &place, place.offset + sectors) -
			  hsp_offset_ns(&disk->geometry, &place, place.offset);
		sector += sectors;
	}
	return now_ns;
}

/* The stream reads on until a time, or to its limit. */
static void read_on(struct disk *disk, uint64_t until_ns)
{
	struct stream *stream = &disk->stream;
	uint64_t turn_ns = disk->geometry.turn_ns;

	while (stream->is_running && stream->next < stream->limit && stream->next_ns < until_ns) {
		struct hsp_place place = hsp_place_of(&disk->geometry, stream->next);
		uint64_t time_ns = until_ns - stream->next_ns, sectors = place.track_sectors - place.offset;
		uint64_t passed = (time_ns < turn_ns ? time_ns : turn_ns) * place.track_sectors / turn_ns;
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
			stream->next_ns = reach(disk, stream->next_ns, &place);
		}
	}
	if (stream->next - stream->first > disk->buffer_sectors)
		stream->first = stream->next - disk->buffer_sectors;
}

/* The stream goes on to `end`, which is within its limit; when it is there. */
static uint64_t read_on_to(struct disk *disk, uint64_t end)
{
	uint64_t limit = disk->stream.limit;

	disk->stream.limit = end;
	read_on(disk, UINT64_MAX);
	disk->stream.limit = limit;
	return disk->stream.read_ns;
}

static void set_limit(struct disk *disk, uint64_t end)
{
	uint64_t limit = end + disk->read_ahead_sectors;

	disk->stream.limit = limit < disk->model.sectors ? limit : disk->model.sectors;
}

/* The arm is wanted elsewhere. What was read on stays in the buffer. */
static uint64_t take_arm(struct disk *disk, uint64_t ready_ns)
{
	uint64_t start_ns = hsp_later(ready_ns, disk->free_ns);

	read_on(disk, start_ns);
	disk->stream.is_running = 0;
	return start_ns;
}

static uint64_t platter_read(struct disk *disk, uint64_t ready_ns, uint64_t sector, uint64_t end)
{
	struct stream *stream = &disk->stream;
	uint64_t start_ns = take_arm(disk, ready_ns), there_ns, seek_ns;
	struct hsp_place place = hsp_place_of(&disk->geometry, sector);

	seek_ns = hsp_seek_ns(&disk->geometry, &disk->arm, &place);
	there_ns = reach(disk, start_ns, &place);
	count(disk, HSP_SEEKS, 1);
	count(disk, HSP_ROTATION_NS, there_ns - start_ns - seek_ns);
	disk->free_ns = pass(disk, there_ns, sector, end);
	*stream = (struct stream){ .first = sector, .next = end, .next_ns = disk->free_ns, .is_running = 1 };
	set_limit(disk, end);
	if (end < disk->model.sectors) {
		place = hsp_place_of(&disk->geometry, end);
		stream->next_ns = reach(disk, disk->free_ns, &place);
	}
	return disk->free_ns;
}

static uint64_t platter_write(struct disk *disk, uint64_t ready_ns, uint64_t sector, uint64_t end)
{
	struct stream *stream = &disk->stream;
	uint64_t start_ns = take_arm(disk, ready_ns), there_ns, seek_ns;
	struct hsp_place place = hsp_place_of(&disk->geometry, sector);

	if (sector < stream->next && end > stream->first) /* the buffer would be stale */
		stream->first = stream->next = 0;
	seek_ns = hsp_seek_ns(&disk->geometry, &disk->arm, &place);
	if (disk->arm.cylinder != place.cylinder) /* a write needs the arm to be steadier than a read */
		seek_ns += disk->write_settle_ns;
	disk->arm = place;
	there_ns = start_ns + seek_ns;
	there_ns += turn_to_ns(disk, there_ns, &place);
	count(disk, HSP_SEEKS, 1);
	count(disk, HSP_ROTATION_NS, there_ns - start_ns - seek_ns);
	disk->free_ns = pass(disk, there_ns, sector, end);
	return disk->free_ns;
}

/* --- Write cache ----------------------------------------------------------------------------- */

/* A run of dirty sectors of one track goes to the platter; when that is over. */
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
	count(disk, HSP_SECTORS_DESTAGED, end - first);
	/* What begins ahead of time is never taken back: whoever flushes now may count on it. */
	hsp_safety_keep(&disk->safety, done_ns, promised || start_ns >= disk->now_ns, first, end - first);
	disk->elevator = end < disk->model.sectors ? end : 0;
	disk->busy = (start_ns < disk->busy_ns ? disk->busy : 0) + end - first;
	disk->busy_ns = done_ns;
	disk->busy_first = first;
	disk->busy_end = end;
	if (disk->dirty.count <= disk->cache_sectors / 2)
		disk->pressed_ns = UINT64_MAX;
	return done_ns;
}

static void advance(struct disk *disk, uint64_t now_ns)
{
	while (disk->dirty.count) {
		uint64_t idle_ns = hsp_later(disk->last_command_ns, disk->free_ns) + disk->destage_idle_ns;
		uint64_t ready_ns = hsp_later(disk->free_ns, disk->pressed_ns);

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
		count(disk, HSP_CACHE_WAITS, 1);
		if (!disk->busy)
			destage(disk, now_ns, 0);
		now_ns = hsp_later(now_ns, disk->busy_ns);
		disk->busy = 0;
	}
	return now_ns;
}

/* --- What the host asks for ------------------------------------------------------------------ */

static uint64_t link_ns(const struct disk *disk, uint64_t sectors)
{
	return hsp_transfer_ns(sectors * HSP_SECTOR_BYTES, disk->link_bytes_per_s);
}

static uint64_t read_sectors(struct disk *disk, uint64_t now_ns, uint64_t sector, uint64_t end)
{
	struct stream *stream = &disk->stream;
	uint64_t last_ns = link_ns(disk, 1), until_ns, all_ns = link_ns(disk, end - sector);

	if (disk->dirty.count && hsp_dirty_count(&disk->dirty, sector, end) == end - sector) {
		count(disk, HSP_CACHE_HITS, 1);
		return now_ns + all_ns;
	}
	read_on(disk, now_ns);
	if (sector >= stream->first && end <= stream->next) {
		count(disk, HSP_CACHE_HITS, 1);
		if (stream->is_running && stream->next == stream->limit && end + disk->read_ahead_sectors > stream->limit &&
		    stream->next < disk->model.sectors) {
			/* It had stopped, and goes on when its next sector comes round. */
			struct hsp_place place = hsp_place_of(&disk->geometry, stream->next);

			stream->next_ns = hsp_later(stream->next_ns, now_ns);
			stream->next_ns += turn_to_ns(disk, stream->next_ns, &place);
		}
		if (stream->limit < end + disk->read_ahead_sectors)
			set_limit(disk, end);
		return now_ns + all_ns;
	}
	if (stream->is_running && sector >= stream->first && sector <= stream->next && stream->next < stream->limit &&
	    end <= stream->limit) {
		count(disk, HSP_CACHE_HITS, 1);
		until_ns = read_on_to(disk, end);
		disk->free_ns = hsp_later(disk->free_ns, until_ns);
		set_limit(disk, end);
		return hsp_later(now_ns + all_ns, until_ns + last_ns);
	}
	return hsp_later(now_ns + all_ns, platter_read(disk, now_ns, sector, end) + last_ns);
}

/* Straight to the platter, whatever the cache has of it. */
static uint64_t write_through(struct disk *disk, uint64_t now_ns, uint64_t sector, uint64_t end)
{
	uint64_t done_ns;

	hsp_dirty_remove(&disk->dirty, sector, end);
	disk->through_ns = done_ns = platter_write(disk, now_ns, sector, end);
	hsp_safety_keep(&disk->safety, done_ns, 1, sector, end - sector);
	return done_ns;
}

static uint64_t write_sectors(struct disk *disk, uint64_t now_ns, const struct hsp_request *request)
{
	uint64_t sector = request->sector, end = sector + request->sectors;

	hsp_safety_lose(&disk->safety, disk->now_ns, sector, end - sector);
	if (sector < disk->stream.limit && end > disk->stream.first) {
		read_on(disk, now_ns); /* the arm stays where reading on has brought it */
		disk->stream = (struct stream){ 0 };
	}
	if (request->op == HSP_WRITE)
		now_ns += link_ns(disk, end - sector);
	if (request->fua || end - sector > disk->cache_sectors)
		return write_through(disk, now_ns, sector, end);
	now_ns = wait_for_room(disk, now_ns, end - sector - hsp_dirty_count(&disk->dirty, sector, end));
	hsp_dirty_add(&disk->dirty, sector, end);
	if (disk->dirty.count > disk->cache_sectors / 2 && disk->pressed_ns == UINT64_MAX)
		disk->pressed_ns = now_ns;
	return now_ns;
}

static uint64_t flush(struct disk *disk, uint64_t now_ns)
{
	if (disk->busy_ns > now_ns)
		hsp_safety_promise(&disk->safety, disk->busy_ns, disk->busy_first, disk->busy_end - disk->busy_first);
	/* A write past the cache may have taken the place of one that was in it. */
	now_ns = hsp_later(now_ns, hsp_later(disk->busy_ns, disk->through_ns));
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
	default: /* a discard is a hint that a disk does not take */
		return now_ns;
	}
}

/* --- Power, state, life ---------------------------------------------------------------------- */

static int disk_is_volatile(struct hsp_model *model, uint64_t now_ns, uint64_t sector)
{
	struct disk *disk = disk_of(model);

	disk->now_ns = now_ns;
	advance(disk, now_ns);
	return hsp_safety_is_lost(&disk->safety, now_ns, sector);
}

static void disk_forget(struct hsp_model *model, uint64_t now_ns)
{
	struct disk *disk = disk_of(model);

	disk->now_ns = now_ns;
	advance(disk, now_ns);
	read_on(disk, now_ns);
	hsp_dirty_clear(&disk->dirty);
	hsp_safety_clear(&disk->safety);
	disk->stream = (struct stream){ 0 };
	disk->busy = disk->busy_ns = disk->through_ns = 0;
	disk->pressed_ns = UINT64_MAX;
	disk->free_ns = disk->last_command_ns = now_ns;
}

static void disk_put(struct hsp_model *model, uint64_t now_ns, struct hsp_state *state)
{
	struct disk *disk = disk_of(model);

	disk->now_ns = now_ns;
	advance(disk, now_ns);
	read_on(disk, now_ns);
	hsp_state_put(state, disk->rng.state, 8);
	hsp_state_put(state, disk->arm.cylinder, 4);
	hsp_state_put(state, disk->arm.head, 4);
	hsp_state_put(state, (now_ns + disk->phase_ns) % disk->geometry.turn_ns, 8);
	hsp_state_put(state, disk->elevator, 8);
}

static void disk_get(struct hsp_model *model, struct hsp_state *state)
{
	struct disk *disk = disk_of(model);

	disk->rng.state = hsp_state_get(state, 8);
	disk->arm.cylinder = (uint32_t)hsp_state_get_upto(state, 4, disk->geometry.cylinders - 1);
	disk->arm.head = (uint32_t)hsp_state_get_upto(state, 4, disk->geometry.heads - 1);
	disk->phase_ns = hsp_state_get_upto(state, 8, disk->geometry.turn_ns - 1);
	disk->elevator = hsp_state_get_upto(state, 8, model->sectors - 1);
}

static uint64_t disk_memory(const struct hsp_model *model)
{
	return sizeof(struct disk) + 8 * model->sectors + (model->sectors + 63) / 64 * 8;
}

static void disk_free(struct hsp_model *model)
{
	struct disk *disk = disk_of(model);

	hsp_safety_free(&disk->safety);
	hsp_dirty_free(&disk->dirty);
	free(disk);
}

static const struct hsp_model_ops DISK_OPS = {
	.submit = disk_submit,
	.is_volatile = disk_is_volatile,
	.forget = disk_forget,
	.put = disk_put,
	.get = disk_get,
	.memory = disk_memory,
	.free = disk_free,
};

struct hsp_model *hsp_disk_new(struct hsp_spec *spec, uint64_t sectors)
{
	const uint64_t max_ns = 4000000000u; /* below 2^32, as random numbers are */
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
	disk->cache_sectors = hsp_spec_number(spec, "write_cache_bytes", 0, UINT64_C(1) << 40) / HSP_SECTOR_BYTES;
	disk->destage_idle_ns = hsp_spec_number(spec, "destage_idle_ns", 0, UINT64_C(1) << 50);
	disk->model.attributes = HSP_ROTATIONAL | (disk->cache_sectors ? HSP_VOLATILE_CACHE : 0);
	disk->pressed_ns = UINT64_MAX;
	if (!spec->failed) {
		disk->arm = hsp_place_of(&disk->geometry, 0);
		disk->phase_ns = hsp_rng_next(&disk->rng) % disk->geometry.turn_ns;
		if (hsp_dirty_init(&disk->dirty, sectors) || hsp_safety_init(&disk->safety, sectors))
			hsp_spec_fail(spec, "no memory for the model");
	}
	if (spec->failed) {
		disk_free(&disk->model);
		return NULL;
	}
	return &disk->model;
}
