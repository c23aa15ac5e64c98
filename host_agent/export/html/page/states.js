// SPDX-License-Identifier: GPL-2.0-or-later
/* The states of vCPUs, from the host's view: when a guest's task did not really run, and why. */

/* As in analyze/states.h and html/states.h. */
const STATE = {
	UNKNOWN: 0,
	STOLEN: 5,
	THROTTLED: 6,
	HALTED: 7,
	OFFLINE: 11,
	IDLE: 12,
	MERGED: 13,
	ALL: 16,
};
const STATE_TEXT = [
	'unknown',
	'guest',
	'in the hypervisor',
	'in the VMM',
	'running',
	'stolen',
	'throttled',
	'halted',
	'blocked in the hypervisor or the VMM',
	'sleeping',
	'stopped',
	'offline',
	'sleeping',
	'',
];
/* What looks the same. */
const LOOK = { STOLEN: 0, EXITED: 1, ASLEEP: 2, UNKNOWN: 3, ALL: 4 };
const LOOK_OF = [
	LOOK.UNKNOWN,
	-1,
	LOOK.EXITED,
	LOOK.EXITED,
	-1,
	LOOK.STOLEN,
	LOOK.STOLEN,
	LOOK.ASLEEP,
	LOOK.ASLEEP,
	LOOK.ASLEEP,
	LOOK.ASLEEP,
	LOOK.ASLEEP,
	LOOK.ASLEEP,
];

/*
 * Spans of one vCPU, one after the other; time that it executed is not among them. busy[state][k]
 * is the time in that state of all spans before k.
 */
class States {
	constructor(lane, spans) {
		const nr = spans.length;
		this.lane = lane;
		this.nr = nr;
		this.start = new Float64Array(nr);
		this.end = new Float64Array(nr);
		this.state = new Uint8Array(nr);
		this.culprit = new Uint32Array(nr);
		this.parts = new Map();
		this.busy = new Map();
		/* Incarnations of a guest come one after the other. */
		spans.sort((a, b) => a.start - b.start);
		spans.forEach((span, k) => {
			this.start[k] = Math.max(span.start, k ? this.end[k - 1] : span.start);
			this.end[k] = Math.max(span.end, this.start[k]);
			this.state[k] = span.state;
			this.culprit[k] = span.culprit;
			if (span.parts) this.parts.set(k, span.parts);
			for (const [state] of this.partsOf(k)) this.busy.set(state, null);
		});
		for (const state of this.busy.keys()) this.busy.set(state, this.sum(state));
	}

	sum(state) {
		const sums = new Float64Array(this.nr + 1);
		for (let k = 0; k < this.nr; k++) sums[k + 1] = sums[k] + this.part(k, state);
		return sums;
	}

	length(k) {
		return this.end[k] - this.start[k];
	}

	/* [[state, ns], ...] */
	partsOf(k) {
		return this.parts.get(k) || [[this.state[k], this.length(k)]];
	}

	part(k, state) {
		if (this.state[k] === state) return this.length(k);
		const part = (this.parts.get(k) || []).find(([one]) => one === state);
		return part ? part[1] : 0;
	}

	/* The spans that touch [t0, t1). */
	within(t0, t1) {
		return [upperBound(this.end, t0), lowerBound(this.start, t1)];
	}

	/* How long it was in a state within [t0, t1), which the spans [from, to) touch. */
	spent(state, from, to, t0, t1) {
		const sums = this.busy.get(state);
		if (!sums || from >= to) return 0;
		const outside = (k, ns) =>
			ns > 0 && this.length(k) ? (this.part(k, state) * ns) / this.length(k) : 0;
		return (
			sums[to] -
			sums[from] -
			outside(from, t0 - this.start[from]) -
			outside(to - 1, this.end[to - 1] - t1)
		);
	}

	/* Likewise, by what looks the same, into @shares. */
	looks(from, to, t0, t1, shares) {
		shares.fill(0);
		for (const state of this.busy.keys())
			shares[LOOK_OF[state]] += this.spent(state, from, to, t0, t1);
		return shares;
	}

	/* How long it did not execute within [t0, t1). */
	outside(t0, t1) {
		const [from, to] = this.within(t0, t1);
		let ns = 0;
		for (const state of this.busy.keys()) ns += this.spent(state, from, to, t0, t1);
		return ns;
	}

	/* [[state, ns], ...] within [t0, t1), the longest first. */
	sums(t0, t1) {
		const [from, to] = this.within(t0, t1),
			byText = new Map();
		for (const state of this.busy.keys()) {
			const ns = this.spent(state, from, to, t0, t1),
				text = STATE_TEXT[state];
			if (ns > 0) byText.set(text, (byText.get(text) || 0) + ns);
		}
		return [...byText].sort((a, b) => b[1] - a[1]);
	}

	/* The stolen time around a span: [from, to) of spans without anything in between. */
	episode(k) {
		const { start, end, state, nr } = this;
		let from = k,
			to = k + 1;
		while (from && state[from - 1] === STATE.STOLEN && end[from - 1] === start[from])
			from--;
		while (to < nr && state[to] === STATE.STOLEN && start[to] === end[to - 1]) to++;
		return [from, to];
	}

	/* [[name, ns], ...] of [from, to), the one that took most first. */
	culprits(from, to, t0 = -Infinity, t1 = Infinity) {
		const sums = new Map();
		for (let k = from; k < to; k++) {
			if (this.state[k] !== STATE.STOLEN) continue;
			const ns = Math.min(t1, this.end[k]) - Math.max(t0, this.start[k]);
			sums.set(this.culprit[k], (sums.get(this.culprit[k]) || 0) + ns);
		}
		return [...sums].sort((a, b) => b[1] - a[1]);
	}

	/* The span at a time; or of those within some time of it a stolen one, the longest. -1: none. */
	at(time, within) {
		const [from, to] = this.within(time - within, time + within);
		let best = -1;
		for (let k = from; k < Math.min(to, from + 4096); k++) {
			if (this.start[k] <= time && this.end[k] > time && this.length(k) > 2 * within)
				return k;
			const stolen = this.state[k] === STATE.STOLEN;
			if (
				best < 0 ||
				(stolen && this.state[best] !== STATE.STOLEN) ||
				(stolen === (this.state[best] === STATE.STOLEN) &&
					this.length(k) > this.length(best))
			)
				best = k;
		}
		return best;
	}
}

/* The chunks, as states of lanes. */
function readStates(trace, chunks) {
	const byLane = trace.lanes.map(() => []);
	let now = trace.statesFrom;
	for (const bytes of chunks) {
		const {
			rows,
			columns: [track, end, length, culprit, parts],
		} = columnsOf(bytes, 5);
		for (let row = 0; row < rows; row++) {
			const key = track.next(),
				state = key % STATE.ALL;
			now += end.signed();
			const span = {
				start: now - length.next(),
				end: now,
				state,
				culprit: culprit.next(),
			};
			if (state === STATE.MERGED) {
				span.parts = [];
				for (let nr = parts.next(); nr > 0; nr--)
					span.parts.push([parts.next(), parts.next()]);
			}
			byLane[Math.floor(key / STATE.ALL)].push(span);
		}
	}
	for (const lane of trace.lanes) {
		const spans = byLane[lane.index];
		lane.states = spans.length ? new States(lane, spans) : null;
	}
}

/* Where a culprit ran; null: not in this page. */
function culpritLane(trace, name) {
	const lane = trace.nameNumber[name];
	return lane && trace.nameType[name] === NAME.CULPRIT ? trace.lanes[lane - 1] : null;
}

/* "host CPU 1: guest2/vCPU 0: dd[104]" */
function culpritText(trace, name) {
	const cpu = trace.nameType[name] === NAME.CULPRIT ? trace.nameGroup[name] : 0;
	return `${cpu ? `host CPU ${cpu - 1}: ` : ''}${trace.nameText[name]}`;
}

/* Of a span of states: "stolen", or of a merged one how much was what. */
function stateText(states, k) {
	return states
		.partsOf(k)
		.map(([state, ns]) =>
			states.parts.has(k) ? `${STATE_TEXT[state]} ${durationText(ns)}` : STATE_TEXT[state],
		)
		.join(', ');
}
