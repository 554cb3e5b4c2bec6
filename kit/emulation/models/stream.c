#include "stream.h"

static void set_limit(struct hsp_stream *stream, uint64_t end)
{
	uint64_t limit = end + stream->ahead_sectors;

	stream->limit = limit < stream->sectors ? limit : stream->sectors;
}

void hsp_stream_begin(struct hsp_stream *stream, uint64_t sector, uint64_t end, uint64_t free_ns)
{
	hsp_stream_drop(stream);
	stream->first = sector;
	stream->next = end;
	stream->next_ns = free_ns;
	stream->is_running = 1;
	set_limit(stream, end);
	if (end < stream->sectors) {
		struct hsp_place place = hsp_place_of(&stream->arm->geometry, end);

		stream->next_ns = hsp_arm_move(stream->arm, free_ns, &place);
	}
}

void hsp_stream_drop(struct hsp_stream *stream)
{
	stream->first = stream->next = stream->limit = 0;
	stream->next_ns = stream->read_ns = 0;
	stream->is_running = 0;
}

void hsp_stream_advance(struct hsp_stream *stream, uint64_t until_ns)
{
	const struct hsp_geometry *geometry = &stream->arm->geometry;

	while (stream->is_running && stream->next < stream->limit && stream->next_ns < until_ns) {
		struct hsp_place place = hsp_place_of(geometry, stream->next);
		uint64_t time_ns = until_ns - stream->next_ns, sectors = place.track_sectors - place.offset;
		uint64_t passed = (time_ns < geometry->rotation_ns ? time_ns : geometry->rotation_ns) *
				  place.track_sectors / geometry->rotation_ns;
		uint64_t left = stream->limit - stream->next;

		sectors = sectors < left ? sectors : left;
		if (passed < sectors)
			sectors = passed;
		if (!sectors)
			break;
		stream->arm->at = place;
		stream->next_ns += hsp_offset_ns(geometry, &place, place.offset + (uint32_t)sectors) -
				   hsp_offset_ns(geometry, &place, place.offset);
		stream->next += sectors;
		stream->read_ns = stream->next_ns;
		if (place.offset + sectors == place.track_sectors && stream->next < stream->sectors) {
			place = hsp_place_of(geometry, stream->next);
			stream->next_ns = hsp_arm_move(stream->arm, stream->next_ns, &place);
		}
	}
	if (stream->next - stream->first > stream->buffer_sectors)
		stream->first = stream->next - stream->buffer_sectors;
}

int hsp_stream_has(const struct hsp_stream *stream, uint64_t sector, uint64_t end)
{
	return sector >= stream->first && end <= stream->next;
}

int hsp_stream_comes_to(const struct hsp_stream *stream, uint64_t sector, uint64_t end)
{
	return stream->is_running && sector >= stream->first && sector <= stream->next &&
	       stream->next < stream->limit && end <= stream->limit;
}

void hsp_stream_hit(struct hsp_stream *stream, uint64_t now_ns, uint64_t end)
{
	if (stream->is_running && stream->next == stream->limit && end + stream->ahead_sectors > stream->limit &&
	    stream->next < stream->sectors) {
		/* It had stopped at its limit, and continues when its next sector comes round. */
		struct hsp_place place = hsp_place_of(&stream->arm->geometry, stream->next);

		if (stream->next_ns < now_ns)
			stream->next_ns = now_ns;
		stream->next_ns += hsp_arm_rotation_ns(stream->arm, stream->next_ns, &place);
	}
	if (stream->limit < end + stream->ahead_sectors)
		set_limit(stream, end);
}

uint64_t hsp_stream_read_to(struct hsp_stream *stream, uint64_t end)
{
	stream->limit = end;
	hsp_stream_advance(stream, UINT64_MAX);
	set_limit(stream, end);
	return stream->read_ns;
}
