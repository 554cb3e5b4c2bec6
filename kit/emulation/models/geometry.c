#include "geometry.h"

#include <math.h>

#include "impl.h"

/*
 * Sectors per track for which a sequential read, including track switches, yields `bytes_per_s`:
 * the sustained rate of a data sheet.
 */
static uint32_t track_sectors(const struct hsp_geometry *geometry, uint64_t bytes_per_s)
{
	uint64_t switches_ns = (geometry->heads - 1) * geometry->head_switch_ns + geometry->settle_ns;
	uint64_t track_ns = geometry->rotation_ns + switches_ns / geometry->heads;
	uint64_t sectors = bytes_per_s / 1000 * track_ns / 1000000 / HSP_SECTOR_BYTES;

	return sectors ? (uint32_t)sectors : 1;
}

/* Lay out the zones for a number of cylinders; returns the total sectors. */
static uint64_t lay_out(struct hsp_geometry *geometry, uint32_t cylinders)
{
	uint64_t sector = 0;

	geometry->cylinders = cylinders;
	for (uint32_t z = 0; z < geometry->zones; z++) {
		struct hsp_zone *zone = &geometry->zone[z];
		uint32_t end = (uint32_t)((uint64_t)cylinders * (z + 1) / geometry->zones);

		zone->first_sector = sector;
		zone->first_cylinder = (uint32_t)((uint64_t)cylinders * z / geometry->zones);
		sector += (uint64_t)(end - zone->first_cylinder) * geometry->heads * zone->track_sectors;
	}
	return sector;
}

void hsp_geometry_init(struct hsp_geometry *geometry, struct hsp_spec *spec, uint64_t sectors)
{
	uint64_t outer = hsp_spec_number(spec, "outer_bytes_per_s", 100000, HSP_MAX_BYTES_PER_S);
	uint64_t inner = hsp_spec_number(spec, "inner_bytes_per_s", 100000, HSP_MAX_BYTES_PER_S);
	uint64_t low = 1, high = UINT32_MAX - 1;

	*geometry = (struct hsp_geometry){
		.rotation_ns = UINT64_C(60000000000) / hsp_spec_number(spec, "rpm", 100, 100000),
		.heads = (uint32_t)hsp_spec_number(spec, "heads", 1, 64),
		.zones = (uint32_t)hsp_spec_number(spec, "zones", 1, HSP_ZONES),
		.settle_ns = hsp_spec_number(spec, "settle_ns", 1, 1000000000),
		.head_switch_ns = hsp_spec_number(spec, "head_switch_ns", 1, 1000000000),
		.average_seek_ns = hsp_spec_number(spec, "average_seek_ns", 1, 1000000000),
		.full_seek_ns = hsp_spec_number(spec, "full_seek_ns", 1, 1000000000),
		.stroke_ppm = hsp_spec_number(spec, "stroke_ppm", 0, 1000000),
	};
	if (inner > outer)
		hsp_spec_fail(spec, "inner_bytes_per_s is more than outer_bytes_per_s");
	if (geometry->average_seek_ns < geometry->settle_ns || geometry->full_seek_ns < geometry->average_seek_ns)
		hsp_spec_fail(spec, "settle_ns, average_seek_ns and full_seek_ns do not rise");
	if (spec->failed)
		return;
	for (uint32_t z = 0; z < geometry->zones; z++) {
		/* Rate in the middle of the zone: it falls linearly from the outer to the inner edge. */
		uint64_t fall_ppm = geometry->stroke_ppm * (2 * z + 1) / (2 * geometry->zones);

		geometry->zone[z].track_sectors =
			track_sectors(geometry, outer - (outer - inner) / 1000 * fall_ppm / 1000);
	}
	while (low < high) { /* the fewest cylinders that hold the device */
		uint64_t middle = (low + high) / 2;

		if (lay_out(geometry, (uint32_t)middle) < sectors)
			low = middle + 1;
		else
			high = middle;
	}
	lay_out(geometry, (uint32_t)low);
}

struct hsp_place hsp_place_of(const struct hsp_geometry *geometry, uint64_t sector)
{
	uint32_t z = geometry->zones - 1;
	const struct hsp_zone *zone;
	uint64_t track, rest;

	while (z && geometry->zone[z].first_sector > sector)
		z--;
	zone = &geometry->zone[z];
	rest = sector - zone->first_sector;
	track = rest / zone->track_sectors;
	return (struct hsp_place){
		.cylinder = zone->first_cylinder + (uint32_t)(track / geometry->heads),
		.head = (uint32_t)(track % geometry->heads),
		.track_sectors = zone->track_sectors,
		.offset = (uint32_t)(rest % zone->track_sectors),
	};
}

uint64_t hsp_offset_ns(const struct hsp_geometry *geometry, const struct hsp_place *place, uint32_t offset)
{
	return offset * geometry->rotation_ns / place->track_sectors;
}

uint64_t hsp_angle_ns(const struct hsp_geometry *geometry, const struct hsp_place *place)
{
	/* Track skew: each track starts later than the previous one by the time of the switch. */
	uint64_t cylinder_ns = (geometry->heads - 1) * geometry->head_switch_ns + geometry->settle_ns;
	uint64_t skew_ns = place->cylinder * (cylinder_ns % geometry->rotation_ns) + place->head * geometry->head_switch_ns;

	return (skew_ns + hsp_offset_ns(geometry, place, place->offset)) % geometry->rotation_ns;
}

/*
 * Short seeks are dominated by acceleration and grow with the square root of the distance, long
 * ones linearly: Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer
 * 27(3), 1994. The average seek is the seek over a third of the stroke, which is the mean distance
 * between two random tracks.
 */
uint64_t hsp_seek_ns(const struct hsp_geometry *geometry, const struct hsp_place *from, const struct hsp_place *to)
{
	uint32_t distance = from->cylinder > to->cylinder ? from->cylinder - to->cylinder :
							    to->cylinder - from->cylinder;
	double share;

	if (!distance)
		return from->head == to->head ? 0 : geometry->head_switch_ns;
	if (distance == 1) /* adjacent tracks, whatever the number of emulated cylinders */
		return geometry->settle_ns;
	share = (double)distance / (geometry->cylinders - 1) * ((double)geometry->stroke_ppm / 1e6);
	if (3 * share < 1)
		return geometry->settle_ns +
		       (uint64_t)((double)(geometry->average_seek_ns - geometry->settle_ns) * sqrt(3 * share));
	return geometry->average_seek_ns +
	       (uint64_t)((double)(geometry->full_seek_ns - geometry->average_seek_ns) * (3 * share - 1) / 2);
}
