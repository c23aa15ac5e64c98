// SPDX-License-Identifier: GPL-2.0-or-later
/* The stretch of time that is shown, and how it moves: at once, or for as long as a key is held. */

const SHORTEST_NS = 20;

class Viewport {
	constructor(trace, moved) {
		this.trace = trace;
		this.moved = moved;
		this.held = new Map(); /* key: [zoom, pan] a second, while it is down */
		this.recorded();
	}

	get length() {
		return this.t1 - this.t0;
	}

	set(t0, t1) {
		const { first, last } = this.trace,
			whole = (last - first) * 1.04;
		let length = Math.min(Math.max(t1 - t0, SHORTEST_NS), whole);
		if (!(length > 0)) length = whole;
		const middle = (t0 + t1) / 2;
		t0 = Math.min(
			Math.max(middle - length / 2, first - whole * 0.02 - length * 0.4),
			last + whole * 0.02 - length * 0.6,
		);
		this.t0 = t0;
		this.t1 = t0 + length;
		this.moved();
	}

	/* From the recording's start to its stop. */
	recorded() {
		const { shownFirst, shownLast } = this.trace,
			margin = (shownLast - shownFirst) * 0.02;
		this.set(shownFirst - margin, shownLast + margin);
	}

	all() {
		const margin = (this.trace.last - this.trace.first) * 0.02;
		this.set(this.trace.first - margin, this.trace.last + margin);
	}

	/* @factor of time is kept, and the place of @at too. */
	zoom(factor, at = (this.t0 + this.t1) / 2) {
		const length = Math.min(
			Math.max(this.length * factor, SHORTEST_NS),
			(this.trace.last - this.trace.first) * 1.04,
		);
		const share = (at - this.t0) / this.length;
		this.set(at - share * length, at + (1 - share) * length);
	}

	/* By a share of what is shown. */
	pan(share) {
		this.set(this.t0 + share * this.length, this.t1 + share * this.length);
	}

	/* So that a time is seen, if it is not. */
	reveal(time, until = time) {
		const margin = this.length * 0.05;
		if (time >= this.t0 + margin && until <= this.t1 - margin) return;
		if (time >= this.t0 && time <= this.t1 && until - time > this.length) return;
		this.set(time - this.length / 2, time + this.length / 2);
	}

	hold(key, zoom, pan) {
		const idle = !this.held.size;
		this.held.set(key, [zoom, pan]);
		if (idle) {
			this.before = performance.now();
			requestAnimationFrame((now) => this.step(now));
		}
	}

	release(key) {
		if (key === undefined) this.held.clear();
		else this.held.delete(key);
	}

	step(now) {
		const seconds = Math.min(Math.max(now - this.before, 4), 50) / 1000;
		this.before = now;
		for (const [zoom, pan] of this.held.values()) {
			if (zoom) this.zoom(Math.exp(-zoom * seconds), this.aim);
			if (pan) this.pan(pan * seconds);
		}
		if (this.held.size) requestAnimationFrame((later) => this.step(later));
	}
}
