/* The arm of a disk over a platter that always rotates. */
#ifndef HSP_ARM_H
#define HSP_ARM_H

#include "geometry.h"

struct hsp_arm {
	struct hsp_geometry geometry;
	struct hsp_place at;
	uint64_t phase_ns; /* rotation of the platter at time 0 */
};

/* Time from now_ns until the place passes under the head. */
uint64_t hsp_arm_rotation_ns(const struct hsp_arm *arm, uint64_t now_ns, const struct hsp_place *place);

/* Seek to a place, `settle_ns` longer to another cylinder. */
uint64_t hsp_arm_seek_ns(const struct hsp_arm *arm, const struct hsp_place *place, uint64_t settle_ns);

/* Move to the track and wait for the sector; returns when it is under the head. */
uint64_t hsp_arm_move(struct hsp_arm *arm, uint64_t now_ns, const struct hsp_place *place);

/* Pass the sectors [sector, end) under the head, track by track; returns the end of the last one. */
uint64_t hsp_arm_pass(struct hsp_arm *arm, uint64_t now_ns, uint64_t sector, uint64_t end);

#endif
