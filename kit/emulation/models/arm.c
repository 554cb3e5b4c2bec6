#include "arm.h"

uint64_t hsp_arm_rotation_ns(const struct hsp_arm *arm, uint64_t now_ns, const struct hsp_place *place)
{
	uint64_t rotation_ns = arm->geometry.rotation_ns, at_ns = (now_ns + arm->phase_ns) % rotation_ns;

	return (hsp_angle_ns(&arm->geometry, place) + rotation_ns - at_ns) % rotation_ns;
}

uint64_t hsp_arm_seek_ns(const struct hsp_arm *arm, const struct hsp_place *place, uint64_t settle_ns)
{
	return hsp_seek_ns(&arm->geometry, &arm->at, place) + (arm->at.cylinder != place->cylinder ? settle_ns : 0);
}

uint64_t hsp_arm_move(struct hsp_arm *arm, uint64_t now_ns, const struct hsp_place *place)
{
	now_ns += hsp_arm_seek_ns(arm, place, 0);
	arm->at = *place;
	return now_ns + hsp_arm_rotation_ns(arm, now_ns, place);
}

uint64_t hsp_arm_pass(struct hsp_arm *arm, uint64_t now_ns, uint64_t sector, uint64_t end)
{
	while (sector < end) {
		struct hsp_place place = hsp_place_of(&arm->geometry, sector);
		uint64_t rest = place.track_sectors - place.offset;
		uint32_t sectors = (uint32_t)(rest < end - sector ? rest : end - sector);

		now_ns = hsp_arm_move(arm, now_ns, &place);
		now_ns += hsp_offset_ns(&arm->geometry, &place, place.offset + sectors) -
			  hsp_offset_ns(&arm->geometry, &place, place.offset);
		sector += sectors;
	}
	return now_ns;
}
