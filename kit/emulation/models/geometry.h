/*
 * Where sectors are on a disk, and how long the arm takes between tracks.
 *
 * An emulated disk is small, so few tracks hold it. They are spread evenly over `stroke` of the
 * way from the outer to the inner edge: seeks are as long as on a disk of which that share is used.
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
	uint64_t turn_ns, head_switch_ns, settle_ns, average_seek_ns, full_seek_ns;
	uint64_t stroke_ppm;
	uint32_t heads, cylinders, zones;
	struct hsp_zone zone[HSP_ZONES];
};

/* A track, and a sector on it. */
struct hsp_place {
	uint32_t cylinder, head, track_sectors;
	uint32_t offset;
};

/* Reads its keys from the spec. */
void hsp_geometry_init(struct hsp_geometry *geometry, struct hsp_spec *spec, uint64_t sectors);

struct hsp_place hsp_place_of(const struct hsp_geometry *geometry, uint64_t sector);

/* How far the platter turns from the start of the track to the start of the sector `offset`. */
uint64_t hsp_offset_ns(const struct hsp_geometry *geometry, const struct hsp_place *place, uint32_t offset);

/* How far it turns from a mark common to all tracks to the start of the place, below turn_ns. */
uint64_t hsp_angle_ns(const struct hsp_geometry *geometry, const struct hsp_place *place);

/* From one track to another, without what a write adds. */
uint64_t hsp_seek_ns(const struct hsp_geometry *geometry, const struct hsp_place *from, const struct hsp_place *to);

#endif
