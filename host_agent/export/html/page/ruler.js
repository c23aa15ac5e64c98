// SPDX-License-Identifier: GPL-2.0-or-later
/* Above the lanes: the whole trace at a glance, and the time of what is shown. */

/* "02:08:10.173318456" of a date; the corner has the day. */
function timeOfDay(text) {
	return text.replace(/^.*T|Z$/g, '');
}

class Ruler {
	constructor(trace, win, state) {
		this.trace = trace;
		this.win = win;
		this.state = state;
		this.canvas = $('ruler');
	}

	resize(width, scale) {
		sizeCanvas(this.canvas, width, RULER_HEIGHT, scale);
		Object.assign(this, { width, scale });
	}

	/* A round number of ns that is as wide as its own text, and some more. */
	step() {
		const least = (this.win.length * 150) / this.width,
			unit = 10 ** Math.floor(Math.log10(least));
		return [1, 2, 5, 10].map((k) => k * unit).find((step) => step >= least);
	}

	draw(palette) {
		const context = this.canvas.getContext('2d'),
			{ win, trace, state } = this;
		const step = Math.max(1, this.step()),
			decimals = Math.min(9, Math.max(0, 9 - Math.floor(Math.log10(step))));
		const perNs = this.width / win.length,
			offset = Number(trace.base % BigInt(Math.round(step)));
		context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
		context.clearRect(0, 0, this.width, RULER_HEIGHT);
		context.font = FONT;
		context.textBaseline = 'middle';
		for (
			let t = Math.floor((win.t0 + offset) / step) * step - offset;
			t < win.t1;
			t += step
		) {
			const x = Math.round((t - win.t0) * perNs),
				text = trace.isWall ? timeOfDay(trace.timeText(t)) : trace.timeText(t);
			context.fillStyle = css(palette.line);
			context.fillRect(x, 6, 1, RULER_HEIGHT);
			for (let part = 1; part < 5; part++)
				context.fillRect(
					Math.round(x + (part * step * perNs) / 5),
					RULER_HEIGHT - 5,
					1,
					5,
				);
			context.fillStyle = css(palette.faint);
			if (x >= 0)
				context.fillText(
					text.slice(
						0,
						text.length - 9 + decimals - (decimals ? 0 : 1),
					),
					x + 4,
					11,
				);
		}
		for (const [start, stop] of trace.windows) {
			this.edge(context, start, 'start', palette);
			this.edge(context, stop, 'stop', palette);
		}
		if (state.hover) this.flag(context, state.hover.time, palette.cursor, palette.back);
	}

	/* Where the recording begins or ends. */
	edge(context, time, text, palette) {
		const x = Math.round(((time - this.win.t0) / this.win.length) * this.width),
			wide = text.length * LETTER + 8,
			left = text === 'start' ? x : x - wide;
		if (x < 0 || x > this.width) return;
		context.fillStyle = css(palette.note);
		context.fillRect(x, 0, 1, RULER_HEIGHT);
		context.fillRect(left, RULER_HEIGHT - 13, wide, 13);
		context.fillStyle = css(palette.back);
		context.fillText(text, left + 4, RULER_HEIGHT - 6);
	}

	flag(context, time, color, back) {
		const text = this.trace.timeText(time),
			wide = text.length * LETTER + 8;
		const x = ((time - this.win.t0) / this.win.length) * this.width;
		const left = Math.min(Math.max(0, x - wide / 2), this.width - wide);
		if (x < 0 || x > this.width) return;
		context.fillStyle = css(color);
		context.fillRect(left, 2, wide, RULER_HEIGHT - 4);
		context.fillStyle = css(back);
		context.fillText(text, left + 4, 11);
	}
}

class Overview {
	constructor(trace, win) {
		this.trace = trace;
		this.win = win;
		this.canvas = $('overview');
		this.picture = document.createElement('canvas');
	}

	resize(width, scale) {
		sizeCanvas(this.canvas, width, OVERVIEW_HEIGHT, scale);
		Object.assign(this, { width, scale });
		this.picture.width = this.canvas.width;
		this.picture.height = this.canvas.height;
		this.ready = false;
	}

	time(x) {
		return this.trace.first + (x / this.width) * (this.trace.last - this.trace.first);
	}

	x(time) {
		return (
			((time - this.trace.first) / (this.trace.last - this.trace.first)) *
			this.width
		);
	}

	/* Of each group how many events there are, pixel by pixel. */
	prepare(palette) {
		const { trace, picture } = this,
			width = picture.width,
			context = picture.getContext('2d');
		const band = picture.height / trace.groups.length;
		const perPixel = (trace.last - trace.first) / width;
		context.clearRect(0, 0, width, picture.height);
		trace.groups.forEach((group, g) => {
			const counts = new Uint32Array(width);
			const found = new Uint8Array(width),
				lost = new Uint8Array(width);
			for (const lane of group.lanes) {
				this.count(lane, counts, found, perPixel);
				this.lost(lane.tracks[ROW.LOST], lost, perPixel);
			}
			const most = Math.log2(2 + counts.reduce((a, b) => Math.max(a, b), 0));
			context.fillStyle = css(palette.groups[g]);
			for (let x = 0; x < width; x++) {
				const high = Math.ceil(
					((band - 2) * Math.log2(1 + counts[x])) / most,
				);
				if (high) context.fillRect(x, (g + 1) * band - high, 1, high);
			}
			this.strip(context, lost, css(palette.loss), g * band, band);
			this.strip(context, found, css(palette.found), g * band, band * 0.35);
		});
		this.ready = true;
	}

	count(lane, counts, found, perPixel) {
		const { first } = this.trace,
			last = counts.length - 1;
		for (const time of lane.shownTimes.subarray(0, upperBound(lane.shownTimes, this.trace.lastStop)))
			counts[Math.min(last, Math.floor((time - first) / perPixel))]++;
		for (const time of lane.found || [])
			found[Math.min(last, Math.floor((time - first) / perPixel))] = 1;
	}

	lost(track, lost, perPixel) {
		const { first } = this.trace;
		for (let k = 0; track && k < track.nr; k++)
			lost.fill(
				1,
				Math.floor((track.start[k] - first) / perPixel),
				Math.ceil((track.end[k] - first) / perPixel) + 1,
			);
	}

	strip(context, marks, style, y, height) {
		context.fillStyle = style;
		for (let x = 0; x < marks.length; x++)
			if (marks[x]) context.fillRect(x, y, 1, height);
	}

	draw(palette) {
		const context = this.canvas.getContext('2d'),
			{ scale } = this;
		if (!this.ready) this.prepare(palette);
		context.setTransform(1, 0, 0, 1, 0, 0);
		context.clearRect(0, 0, this.canvas.width, this.canvas.height);
		context.drawImage(this.picture, 0, 0);
		context.setTransform(scale, 0, 0, scale, 0, 0);
		const from = this.x(this.win.t0),
			to = Math.max(from + 2, this.x(this.win.t1));
		context.fillStyle = css(palette.back, 0.6);
		context.fillRect(0, 0, from, OVERVIEW_HEIGHT);
		context.fillRect(to, 0, this.width - to, OVERVIEW_HEIGHT);
		context.strokeStyle = css(palette.selected);
		context.lineWidth = 2;
		context.strokeRect(from, 1, to - from, OVERVIEW_HEIGHT - 2);
	}
}
