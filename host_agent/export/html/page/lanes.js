// SPDX-License-Identifier: GPL-2.0-or-later
/* Draws lanes pixel by pixel: the work depends on how many pixels there are, not on the events. */

const FONT = '11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
const LETTER = 6.7; /* its width, roughly */
const GROUP_HEIGHT = 24,
	TICK_HEIGHT = 12,
	LANE_GAP = 7;
const ROW_HEIGHT = [20, 14, 12, 10, 10, 10, 18, 0];

/* Where each lane and each of its rows is. */
function layOut(trace, folded, pinned) {
	const places = [];
	let y = 0,
		odd = 0;
	for (const lane of pinned) {
		const place = placeLane(lane, trace.groups[lane.group], y, odd++ & 1);
		place.pinned = true;
		places.push(place);
		y += place.height;
	}
	const pinnedHeight = y;
	for (const group of trace.groups) {
		places.push({
			lane: group.lane,
			group,
			y,
			height: GROUP_HEIGHT,
			rows: [],
			ticks: -1,
		});
		y += GROUP_HEIGHT;
		for (const lane of folded.has(group) ? [] : group.lanes) {
			const place = placeLane(lane, group, y, odd & 1);
			if (pinned.has(lane) || (lane.kind !== LANE.CPU && !place.rows.length)) continue;
			odd++;
			y += place.height;
			places.push(place);
		}
	}
	return { places, height: y, pinnedHeight };
}

function placeLane(lane, group, y, odd) {
	const place = { lane, group, y, rows: [], ticks: -1, odd };
	let at = 4;
	/* States lie over the tasks. */
	if (lane.states) place.states = { y: at, height: ROW_HEIGHT[ROW.RUN] };
	if (lane.states && !lane.tracks[ROW.RUN]) at += ROW_HEIGHT[ROW.RUN] + 1;
	for (const track of lane.tracks) {
		if (!track || !ROW_HEIGHT[track.row]) continue;
		place.rows.push({ track, y: at, height: ROW_HEIGHT[track.row] });
		at += ROW_HEIGHT[track.row] + 1;
	}
	if (lane.kind === LANE.CPU) {
		place.ticks = at;
		at += TICK_HEIGHT;
	}
	place.height = at + LANE_GAP - 3;
	return place;
}

/* The first index in (from, to) whose value is at least @value: near ones are found soon. */
function gallop(values, value, from, to) {
	let step = 1,
		low = from + 1;
	while (low < to && values[low] < value) {
		from = low;
		low += step;
		step *= 2;
	}
	return lowerBound(values, value, from + 1, Math.min(low, to));
}

class LanePainter {
	constructor(trace) {
		this.trace = trace;
	}

	/* A picture of @width and @height pixels, @scale of them to the browser's; of @win. */
	begin(width, height, scale, win, palette) {
		if (!this.image || this.image.width !== width || this.image.height !== height) {
			this.image = new ImageData(width, height);
			this.pixels = new Uint32Array(this.image.data.buffer);
			this.line = new Uint32Array(width);
		}
		Object.assign(this, { width, height, scale, palette });
		this.t0 = win.t0;
		this.perPixel = win.length / width;
		this.labels = [];
	}

	/* The line, @rows pixels high from @y on. */
	spread(y, rows) {
		const to = Math.min(this.height, Math.round(y + rows));
		for (let row = Math.max(0, Math.round(y)); row < to; row++)
			this.pixels.set(this.line, row * this.width);
	}

	lane(place, top) {
		const { palette, scale } = this,
			y = (place.y - top) * scale;
		const group = place.lane.kind === LANE.GROUP;
		const back = group ? palette.groupBack : place.odd ? palette.backOdd : palette.back;
		this.line.fill(back);
		this.spread(y, place.height * scale);
		this.line.fill(palette.line);
		this.spread(y + place.height * scale - 1, 1);
		for (const row of place.rows) {
			this.line.fill(back);
			this.spans(row.track, back, y / scale + row.y, row.height);
			this.spread(y + row.y * scale, row.height * scale);
		}
		if (place.states)
			this.states(
				place.lane.states,
				back,
				y + place.states.y * scale,
				place.states.height * scale,
			);
		if (place.ticks >= 0) {
			this.line.fill(back);
			this.ticks(place.lane, back, y / scale + place.ticks);
			this.spread(y + place.ticks * scale, TICK_HEIGHT * scale);
		}
		if (place.lane.tracks[ROW.LOST])
			this.losses(place.lane.tracks[ROW.LOST], y, place.height * scale);
	}

	/*
	 * Calls @wide(k, from, to) for each span that is wide enough, from pixel to pixel, and
	 * @narrow(x, k, next, begin, end) for each pixel that several or short ones share.
	 */
	walk(track, wide, narrow) {
		const { width, t0, perPixel } = this,
			{ start, end, nr } = track,
			t1 = t0 + width * perPixel;
		let k = upperBound(end, t0, 0, nr),
			x = 0;
		while (k < nr && start[k] < t1 && x < width) {
			const from = Math.max(x, Math.floor((start[k] - t0) / perPixel));
			if (end[k] - start[k] >= 1.5 * perPixel) {
				x = Math.min(
					width,
					Math.max(from + 1, Math.round((end[k] - t0) / perPixel)),
				);
				wide(k++, from, x);
				continue;
			}
			const begin = t0 + from * perPixel,
				pixelEnd = begin + perPixel;
			let next = gallop(start, pixelEnd, k, nr);
			if (next - k > 1 && end[next - 1] - start[next - 1] >= 1.5 * perPixel)
				next--;
			narrow(from, k, next, begin, pixelEnd);
			x = from + 1;
			k = next;
		}
	}

	spans(track, back, y, height) {
		const {
			line,
			perPixel,
			palette: { names },
		} = this;
		this.walk(
			track,
			(k, from, to) => {
				this.wide(names[track.name[k]], back, from, to);
				if (to - from > 24 * this.scale)
					this.labels.push(track, k, from, to, y, height);
			},
			(x, k, next, begin, end) => {
				const chief = next - k > 1 ? track.longest(k, next) : k;
				const share = track.occupied(k, next, begin, end) / perPixel;
				line[x] = mix(
					names[track.name[chief]],
					back,
					0.5 + 0.5 * Math.min(1, Math.max(0, share)),
				);
			},
		);
	}

	/* Over the tasks: what their vCPU did meanwhile. Where several states share a pixel, stacked. */
	states(track, back, y, height) {
		const shares = new Float64Array(LOOK.ALL),
			top = Math.max(0, Math.round(y)),
			bottom = Math.min(this.height, Math.round(y + height));
		this.walk(
			track,
			(k, from, to) => {
				const whole = track.length(k);
				track.looks(k, k + 1, track.start[k], track.end[k], shares);
				for (let x = from; x < to; x++)
					this.column(x, shares, whole, back, top, bottom);
			},
			(x, k, next, begin, end) => {
				track.looks(k, next, begin, end, shares);
				this.column(x, shares, this.perPixel, back, top, bottom);
			},
		);
	}

	/* From below: stolen, exited, unknown; time asleep makes the rest pale. */
	column(x, shares, whole, back, top, bottom) {
		const { pixels, width, palette } = this,
			stripe = Math.max(2, Math.round(2.5 * this.scale)),
			perNs = (bottom - top) / whole;
		const stolen = bottom - shares[LOOK.STOLEN] * perNs,
			exited = stolen - shares[LOOK.EXITED] * perNs,
			unknown = exited - shares[LOOK.UNKNOWN] * perNs,
			awake = 1 - 0.75 * Math.min(1, shares[LOOK.ASLEEP] / whole);
		for (let y = top; y < bottom; y++) {
			const at = y * width + x,
				middle = y + 0.5;
			if (middle >= stolen)
				pixels[at] = mix(
					palette.stolen,
					pixels[at],
					(x + y) % (2 * stripe) < stripe ? 0.95 : 0.25,
				);
			else if (middle >= exited)
				pixels[at] = mix(
					palette.exited,
					pixels[at],
					(x - y + this.height) % (2 * stripe) < stripe / 2 ? 0.7 : 0.1,
				);
			else if (middle >= unknown)
				pixels[at] = mix(palette.unknown, pixels[at], 0.8);
			else if (awake < 1) pixels[at] = mix(pixels[at], back, awake);
		}
	}

	/* One that is wide enough: its first pixel is darker, to separate it from an equal neighbour. */
	wide(color, back, from, to) {
		this.line.fill(color, from, to);
		if (to - from > 2)
			this.line[from] = mix(
				color,
				this.palette.dark ? back : this.palette.text,
				0.6,
			);
	}

	ticks(lane, back, y) {
		const { line, width, t0, perPixel, palette, trace } = this;
		const times = lane.shownTimes,
			rows = lane.shown,
			nr = times.length;
		const t1 = t0 + width * perPixel,
			found = lane.found;
		let k = lowerBound(times, t0);
		while (k < nr && times[k] < t1) {
			const x = Math.min(width - 1, Math.floor((times[k] - t0) / perPixel));
			const next = gallop(times, t0 + (x + 1) * perPixel, k, nr);
			const room = ((next < nr ? times[next] : t1) - times[k]) / perPixel;
			const alone = next - k === 1;
			const color = alone ? palette.names[trace.kind[rows[k]]] : palette.tick;
			line.fill(
				alone
					? color
					: mix(
							color,
							back,
							Math.min(
								1,
								0.45 + Math.log2(next - k) / 12,
							),
						),
				x,
				x + (room > 6 ? Math.ceil(1.5 * this.scale) : 1),
			);
			if (alone && room > 45 * this.scale)
				this.labels.push(
					lane,
					k,
					x,
					Math.min(width, x + room),
					y,
					TICK_HEIGHT,
				);
			k = next;
		}
		k = found ? lowerBound(found, t0) : nr;
		while (found && k < found.length && found[k] < t1) {
			const x = Math.floor((found[k] - t0) / perPixel);
			line.fill(palette.found, x, x + Math.ceil(2 * this.scale));
			k = gallop(found, t0 + (x + 2) * perPixel, k, found.length);
		}
	}

	losses(track, y, height) {
		const { width, t0, perPixel } = this,
			{ start, end, nr } = track;
		let k = upperBound(end, t0 - 3 * perPixel, 0, nr),
			x = 0;
		while (k < nr && x < width && start[k] < t0 + width * perPixel) {
			const from = Math.max(x, Math.floor((start[k] - t0) / perPixel));
			const to = Math.min(
				width,
				Math.max(from + 3, Math.ceil((end[k] - t0) / perPixel)),
			);
			this.hatch(
				from,
				to,
				Math.max(0, Math.round(y)),
				Math.min(this.height, Math.round(y + height)),
			);
			x = to;
			k =
				end[k] > t0 + to * perPixel
					? k + 1
					: Math.max(k + 1, gallop(end, t0 + to * perPixel, k, nr));
		}
	}

	hatch(from, to, top, bottom) {
		const { pixels, width, palette } = this,
			stripe = Math.round(3 * this.scale);
		for (let y = top; y < bottom; y++)
			for (let x = from, at = y * width + from; x < to; x++, at++)
				pixels[at] = mix(
					palette.loss,
					pixels[at],
					(x + y) % (2 * stripe) < stripe ? 0.85 : 0.25,
				);
	}

	/* Lanes that are painted next cover what is above @y, also its labels. */
	cover(y) {
		const kept = [];
		for (let k = 0; k < this.labels.length; k += 6)
			if (this.labels[k + 4] >= y) kept.push(...this.labels.slice(k, k + 6));
		this.labels = kept;
	}

	/* What is written into spans and beside events. */
	write(context) {
		const { trace, palette, labels, scale } = this;
		context.font = FONT;
		context.textBaseline = 'middle';
		for (let k = 0; k < labels.length; k += 6) {
			const [what, index, from, to, y, height] = labels.slice(k, k + 6);
			const isSpan = what instanceof Track;
			if (height < 12) continue;
			const room = Math.floor(((to - from) / scale - 6) / LETTER);
			let text = isSpan
				? trace.spanText(what, index)
				: trace.eventText(what.shown[index]);
			if (text.length > room)
				text = room > 3 ? `${text.slice(0, room - 1)}…` : '';
			if (!text) continue;
			context.fillStyle = css(isSpan ? palette.onSpan : palette.faint);
			context.fillText(text, from / scale + 4, y + height / 2 + 0.5);
		}
	}
}
