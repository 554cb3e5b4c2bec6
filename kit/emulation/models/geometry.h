/*
 * Geometry of a disk: the position of each sector, and seek times between tracks.
 *
 * An emulated disk is small and needs few tracks. They are spread evenly over `stroke_ppm` of the
 * full stroke, so seeks are as long as on a large disk of which that share is used.
 */
#ifndef HSP_GEOMETRY_H
#define HSP_GEOMETRY_H

#include <stdint.h>

#include "spec.h"

enum { HSP_ZONES = 64 };

struct hsp_zone {
	uint64_t first_sector;
	uint32_t first_cylinder;
	uint32_t track_sectors;
};

struct hsp_geometry {
	uint64_t rotation_ns, head_switch_ns, settle_ns, average_seek_ns, full_seek_ns;
	uint64_t stroke_ppm;
	uint32_t heads, cylinders, zones;
	struct hsp_zone zone[HSP_ZONES];
};

/* Position of a sector: its track and the offset on it. */
struct hsp_place {
	uint32_t cylinder, head, track_sectors;
	uint32_t offset;
};

/* Read the geometry's keys from the spec. */
void hsp_geometry_init(struct hsp_geometry *geometry, struct hsp_spec *spec, uint64_t sectors);

struct hsp_place hsp_place_of(const struct hsp_geometry *geometry, uint64_t sector);

/* Rotation time from the start of the track to the start of the sector `offset`. */
uint64_t hsp_offset_ns(const struct hsp_geometry *geometry, const struct hsp_place *place, uint32_t offset);

/* Rotation time from the index mark common to all tracks to the sector; below rotation_ns. */
uint64_t hsp_angle_ns(const struct hsp_geometry *geometry, const struct hsp_place *place);

/* Seek time between two tracks, without the extra settle time of a write. */
uint64_t hsp_seek_ns(const struct hsp_geometry *geometry, const struct hsp_place *from, const struct hsp_place *to);

#endif
