// SPDX-License-Identifier: GPL-2.0-or-later
/* The lanes on the screen: which of them are seen, what lies over them, what is at the pointer. */

class View {
	constructor(trace, win, state) {
		this.trace = trace;
		this.win = win;
		this.state = state; /* hover, selection, marks, range */
		this.painter = new LanePainter(trace);
		this.waits = new WaitPainter(this);
		this.scroller = $('lanes');
		this.base = $('base');
		this.over = $('over');
		this.folded = new Set();
		this.pinned = new Set(); /* lanes */
		this.lay();
	}

	lay() {
		Object.assign(this, layOut(this.trace, this.folded, this.pinned));
		$('room').style.height = `${this.height}px`;
	}

	resize() {
		const scale = window.devicePixelRatio || 1;
		const width = Math.max(50, this.scroller.clientWidth - gutter());
		const height = Math.max(20, this.scroller.clientHeight);
		for (const canvas of [this.base, this.over]) sizeCanvas(canvas, width, height, scale);
		Object.assign(this, { width, shown: height, scale });
	}

	/* Pixels from the left, of the browser's; and back. */
	x(time) {
		return ((time - this.win.t0) / this.win.length) * this.width;
	}

	time(x) {
		return this.win.t0 + (x / this.width) * this.win.length;
	}

	/* Where a place is on the screen: pinned ones do not scroll. */
	top(place) {
		return place.pinned ? place.y : place.y - this.scroller.scrollTop;
	}

	/* A lane's place; undefined: it is folded. */
	placeOf(lane) {
		return this.places.find((place) => place.lane === lane);
	}

	/* Pinned ones come last: they cover the others. */
	visible() {
		const seen = this.places.filter((place) => {
			const y = this.top(place);
			return y < this.shown && y + place.height > (place.pinned ? 0 : this.pinnedHeight);
		});
		return seen.sort((a, b) => !!a.pinned - !!b.pinned);
	}

	draw(palette) {
		const context = this.base.getContext('2d', { alpha: false });
		const { painter, base } = this,
			top = this.scroller.scrollTop;
		this.palette = palette;
		painter.begin(base.width, base.height, this.scale, this.win, palette);
		const used = Math.min(base.height, Math.round((this.height - top) * this.scale));
		painter.pixels.fill(palette.back, used * base.width);
		for (const place of this.visible()) {
			if (place.pinned) painter.cover(this.pinnedHeight);
			painter.lane(place, place.pinned ? 0 : top);
		}
		context.putImageData(painter.image, 0, 0);
		context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
		painter.write(context);
		this.drawWindows(context);
		context.save();
		context.beginPath();
		context.rect(0, this.pinnedHeight, this.width, this.shown);
		context.clip();
		this.drawEpochs(context, top);
		this.drawNotes(context, top);
		context.restore();
		this.drawBounds(context);
		this.drawEnd(context);
		context.setTransform(1, 0, 0, 1, 0, 0);
	}

	/* After the last stop nothing is known: not even events that a guest recorded later are drawn. */
	drawEnd(context) {
		const x = Math.max(0, Math.round(this.x(this.trace.lastStop)) + 1);
		if (!(x < this.width)) return;
		context.fillStyle = css(mix(this.palette.faint, this.palette.back, 0.14));
		context.fillRect(x, 0, this.width - x, this.shown);
	}

	/* What lies outside the recording, from its start to its stop, is shaded. */
	drawWindows(context) {
		let x = 0;
		const shade = (to) => {
			if (to > x) context.fillRect(x, 0, to - x, this.shown);
		};
		context.fillStyle = css(this.palette.faint, 0.14);
		for (const [start, stop] of this.trace.windows) {
			shade(Math.min(this.width, this.x(start)));
			x = Math.max(x, this.x(stop));
		}
		if (this.trace.windows.length) shade(this.width);
	}

	/* Whether what is @y below a place's top lies behind pinned lanes. */
	isCovered(place, y) {
		return !place.pinned && this.top(place) + y < this.pinnedHeight;
	}

	/* From a group's head to the end of its last lane. */
	extent(group, top) {
		const own = this.places.filter((place) => place.group === group && !place.pinned);
		const last = own[own.length - 1];
		return { y: own[0].y - top, height: last.y + last.height - own[0].y };
	}

	drawEpochs(context, top) {
		for (const epoch of this.trace.epochs) {
			const from = Math.max(-2, this.x(Math.min(epoch.from, epoch.begun)));
			const to = Math.min(this.width + 2, this.x(epoch.begun));
			const { y, height } = this.extent(this.trace.groups[epoch.group], top);
			if (!(to >= 0 && from <= this.width)) continue;
			context.fillStyle = css(this.palette.note, 0.16);
			context.fillRect(from, y, Math.max(to - from, 1), height);
			context.fillStyle = css(this.palette.note);
			context.fillRect(to - 1, y, 2, height);
		}
	}

	/* A line through the group's lanes, and its text in the group's head if there is room. */
	drawNotes(context, top) {
		const { trace, win, palette } = this,
			step = win.length / this.width;
		context.font = FONT;
		for (const group of trace.groups) {
			const { times, rows } = group.lane,
				{ y, height } = this.extent(group, top);
			if (y + height < 0 || y > this.shown) continue;
			for (
				let k = lowerBound(times, win.t0 - 4 * step);
				k < times.length && times[k] < win.t1;

			) {
				const x = this.x(times[k]),
					next = gallop(times, times[k] + step, k, times.length);
				context.fillStyle = css(palette.note, 0.7);
				context.fillRect(x, y, 1, height);
				context.beginPath();
				context.moveTo(x, y + 4);
				context.lineTo(x + 9, y + 8.5);
				context.lineTo(x, y + 13);
				context.fill();
				this.noteText(
					context,
					rows[k],
					x + 13,
					y + GROUP_HEIGHT / 2,
					next < times.length ? this.x(times[next]) : this.width,
				);
				k = next;
			}
		}
	}

	noteText(context, row, x, y, until) {
		const room = Math.floor((until - x - 8) / LETTER);
		if (room < 6) return;
		const text = this.trace.texts.of(row, this.state.redraw);
		context.fillStyle = css(this.palette.note);
		if (text)
			context.fillText(
				text.length > room ? `${text.slice(0, room - 1)}…` : text,
				x,
				y,
			);
	}

	/* How far an event may really be from where it is drawn, when that can be seen. */
	drawBounds(context) {
		const { trace, win } = this,
			perNs = this.width / win.length;
		context.fillStyle = css(this.palette.selected, 0.28);
		for (const place of this.visible()) {
			const { shown, shownTimes } = place.lane;
			if (place.ticks < 0 || this.isCovered(place, place.ticks)) continue;
			const from = lowerBound(shownTimes, win.t0),
				to = lowerBound(shownTimes, win.t1);
			for (let k = from; k < to && to - from < 400; k++) {
				const bound = trace.bound[shown[k]] - 1,
					x = this.x(shownTimes[k]);
				if (bound * perNs >= 2)
					context.fillRect(
						x - bound * perNs,
						this.top(place) + place.ticks + 8,
						2 * bound * perNs,
						4,
					);
			}
		}
	}

	drawOver() {
		const context = this.over.getContext('2d'),
			{ state, palette } = this;
		context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
		context.clearRect(0, 0, this.width, this.shown);
		if (state.range) this.shade(context, state.range);
		this.outline(context, state.hover && state.hover.span, css(palette.text, 0.8));
		this.outline(context, state.selection && state.selection.span, css(palette.selected));
		for (const one of [state.selection, state.hover])
			if (one) this.waits.draw(context, one.span, palette);
		if (state.selection && state.selection.state)
			this.blame(context, state.selection.state);
		if (state.selection && state.selection.row >= 0) this.flag(context, state.selection.row);
		state.marks.forEach(
			(mark, k) =>
				mark !== null &&
				this.upright(context, mark, css(palette.found), 'AB'[k]),
		);
		if (state.hover) this.upright(context, state.hover.time, css(palette.cursor, 0.45));
	}

	upright(context, time, style, letter) {
		const x = Math.round(this.x(time)) + 0.5;
		if (x < 0 || x > this.width) return;
		context.strokeStyle = context.fillStyle = style;
		context.lineWidth = 1;
		context.beginPath();
		context.moveTo(x, 0);
		context.lineTo(x, this.shown);
		context.stroke();
		if (letter) {
			context.fillRect(x, 0, 13, 14);
			context.fillStyle = '#000';
			context.font = `bold ${FONT}`;
			context.textBaseline = 'middle';
			context.fillText(letter, x + 3, 8);
		}
	}

	shade(context, { from, to }) {
		const a = this.x(Math.min(from, to)),
			b = this.x(Math.max(from, to));
		context.fillStyle = css(this.palette.selected, 0.16);
		context.fillRect(a, 0, b - a, this.shown);
		context.fillStyle = css(this.palette.selected);
		context.fillRect(a, 0, 1, this.shown);
		context.fillRect(b, 0, 1, this.shown);
	}

	outline(context, span, style) {
		const place = span && this.placeOf(span.track.lane);
		const row = place && place.rows.find((r) => r.track === span.track);
		if (!row || this.isCovered(place, row.y)) return;
		const from = Math.max(-4, this.x(span.track.start[span.k]));
		const to = Math.min(this.width + 4, this.x(span.track.end[span.k]));
		context.strokeStyle = style;
		context.lineWidth = 2;
		context.strokeRect(from, this.top(place) + row.y, Math.max(to - from, 2), row.height);
	}

	/* A stolen part, and where its culprit ran: a frame around each, and a line between them. */
	blame(context, { states, k }) {
		const victim = this.placeOf(states.lane),
			lane = culpritLane(this.trace, states.culprit[k]),
			culprit = lane && this.placeOf(lane);
		const from = Math.max(-4, this.x(states.start[k])),
			to = Math.max(from + 2, Math.min(this.width + 4, this.x(states.end[k])));
		context.strokeStyle = css(this.palette.selected);
		context.lineWidth = 2;
		if (victim && victim.states)
			context.strokeRect(
				from,
				this.top(victim) + victim.states.y,
				to - from,
				victim.states.height,
			);
		if (!culprit || states.state[k] !== STATE.STOLEN) return;
		context.fillStyle = css(this.palette.selected, 0.14);
		context.fillRect(0, this.top(culprit), this.width, culprit.height - 1);
		context.strokeRect(from, this.top(culprit) + 2, to - from, culprit.height - 6);
		if (!victim || victim === culprit) return;
		const down = this.top(culprit) > this.top(victim),
			middle = (from + to) / 2,
			begin = this.top(victim) + victim.states.y + (down ? victim.states.height : 0),
			end = this.top(culprit) + (down ? 2 : culprit.height - 4);
		context.beginPath();
		context.moveTo(middle, begin);
		context.lineTo(middle, end);
		context.moveTo(middle - 4, end + (down ? -7 : 7));
		context.lineTo(middle, end);
		context.lineTo(middle + 4, end + (down ? -7 : 7));
		context.stroke();
	}

	/* The event that is selected: a line, and a triangle at its lane. */
	flag(context, row) {
		const { trace, palette } = this,
			x = this.x(trace.time[row]);
		const place = this.placeOf(trace.lanes[trace.lane[row]]);
		this.upright(context, trace.time[row], css(palette.selected, 0.7));
		if (!place || place.ticks < 0 || this.isCovered(place, place.ticks)) return;
		const y = this.top(place) + place.ticks;
		context.fillStyle = css(palette.selected);
		context.beginPath();
		context.moveTo(x, y + 2);
		context.lineTo(x - 5, y + TICK_HEIGHT);
		context.lineTo(x + 5, y + TICK_HEIGHT);
		context.fill();
	}

	/* What is at a point: its time, lane, span, and the lane's events within @reach pixels. */
	at(x, y, reach = 4) {
		const time = this.time(x),
			within = (reach * this.win.length) / this.width;
		const place = this.places.find(
			(p) => y >= this.top(p) && y < this.top(p) + p.height && !this.isCovered(p, y - this.top(p)),
		);
		const hit = { time, place, span: null, rows: [0, 0], row: -1 };
		if (!place || time > this.trace.lastStop + within) return hit;
		const dy = y - this.top(place);
		hit.box = { y: this.top(place), height: place.height };
		const row = place.rows.find((r) => dy >= r.y && dy <= r.y + r.height);
		const k = row ? row.track.at(time, within / 2) : -1;
		if (k >= 0) hit.span = { track: row.track, k };
		const { states } = place;
		if (states && dy >= states.y && dy <= states.y + states.height) {
			const s = place.lane.states.at(time, within / 2);
			if (s >= 0) hit.state = { states: place.lane.states, k: s, within };
		}
		const { shown, shownTimes: times } = place.lane;
		hit.rows = [lowerBound(times, time - within), upperBound(times, time + within)];
		hit.row = this.nearest(
			shown,
			times,
			k >= 0 && dy < place.ticks ? row.track.start[k] : time,
		);
		const lost = place.lane.tracks[ROW.LOST],
			l = lost ? lost.at(time, within) : -1;
		if (l >= 0) hit.loss = { track: lost, k: l };
		return hit;
	}

	nearest(rows, times, time) {
		const k = lowerBound(times, time);
		if (!times.length) return -1;
		return rows[
			k && (k === times.length || time - times[k - 1] < times[k] - time)
				? k - 1
				: k
		];
	}

	/* So that a lane is seen, if need be at the top; and @too, another one, if there is room for both. */
	revealLane(lane, too = lane) {
		const place = this.placeOf(lane),
			other = this.placeOf(too) || place,
			above = this.pinnedHeight,
			room = this.shown - above,
			top = this.scroller.scrollTop + above;
		const seen = (p) => p.pinned || (p.y >= top && p.y + p.height <= top + room);
		if (!place || (seen(place) && seen(other))) return;
		const scrolled = [place, other].filter((p) => !p.pinned),
			first = Math.min(...scrolled.map(({ y }) => y)),
			last = Math.max(...scrolled.map(({ y, height }) => y + height));
		if (last - first <= room) this.scroller.scrollTop = (first + last - room) / 2 - above;
		else if (!seen(place)) this.scroller.scrollTop = place.y - above;
	}
}
