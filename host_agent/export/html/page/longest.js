// SPDX-License-Identifier: GPL-2.0-or-later
/* The longest stolen episodes and gaps: lists to choose from, and keys that go along them. */

const MOST_LONGEST = 100;
const NONE = {
	stolen: 'No vCPU was stolen, or the capture lacks events of the host.',
	gaps: 'No vCPU stalled.',
};

/* Keeps the longest of many {ns, ...}. */
class Keeper {
	constructor() {
		this.items = [];
		this.least = 0;
	}

	add(item) {
		if (item.ns <= this.least) return;
		this.items.push(item);
		if (this.items.length >= 4 * MOST_LONGEST) this.finish();
	}

	finish() {
		this.items.sort((a, b) => b.ns - a.ns || a.from - b.from);
		this.items.length = Math.min(this.items.length, MOST_LONGEST);
		if (this.items.length === MOST_LONGEST)
			this.least = this.items[MOST_LONGEST - 1].ns;
		return this.items;
	}
}

/* Times in which a vCPU was stolen without interruption, the longest first. */
function longestStolen(trace) {
	const keeper = new Keeper();
	for (const { states } of trace.lanes)
		for (let k = 0, end; states && k < states.nr; k = end) {
			end = k + 1;
			if (states.state[k] !== STATE.STOLEN) continue;
			[, end] = states.episode(k);
			const from = states.start[k],
				to = states.end[end - 1];
			keeper.add({ states, lane: states.lane, k, end, from, to, ns: to - from });
		}
	return keeper.finish();
}

/* Of a time without events: how long the vCPU's guest had something to run. */
function workIn(lane, from, to) {
	const { states } = lane,
		run = lane.tracks[ROW.RUN];
	if (states) {
		const [a, b] = states.within(from, to);
		return (
			to -
			from -
			states.spent(STATE.HALTED, a, b, from, to) -
			states.spent(STATE.OFFLINE, a, b, from, to) -
			states.spent(STATE.IDLE, a, b, from, to)
		);
	}
	if (!run) return to - from;
	const a = upperBound(run.end, from, 0, run.nr),
		b = lowerBound(run.start, to, 0, run.nr);
	return a < b ? run.occupied(a, b, from, to) : 0;
}

/* Times without an event of a vCPU that had work, the longest first; none with losses. */
function longestGaps(trace) {
	const keeper = new Keeper();
	for (const lane of trace.lanes) {
		if (lane.kind !== LANE.CPU || trace.groups[lane.group].kind !== 'guest') continue;
		const { times, rows } = lane;
		for (let k = 0; k < times.length; k++) {
			const last = k + 1 === times.length,
				from = times[k],
				next = last ? trace.shownLast : times[k + 1];
			if (next - from <= keeper.least) continue;
			const to = Math.min(next, trace.recordedUntil(from));
			if (!last && to === next && trace.kind[rows[k + 1]] === LOST) continue;
			keeper.add({ lane, row: rows[k], from, to, ns: workIn(lane, from, to) });
		}
	}
	return keeper.finish();
}

class Longest {
	constructor(app) {
		this.app = app;
		this.lists = {};
		this.current = null;
	}

	/* @what: 'stolen' or 'gaps' */
	list(what) {
		const find = { stolen: longestStolen, gaps: longestGaps }[what];
		this.lists[what] = this.lists[what] || find(this.app.trace);
		return this.lists[what];
	}

	/* The worst at first; then the next worst (1), or back (-1). */
	step(what, direction) {
		const { app, current } = this,
			items = this.list(what),
			there = current && current.selection === app.state.selection,
			at = there ? items.indexOf(current.item) : -1,
			k = at < 0 ? 0 : at + direction;
		if (k >= 0 && k < items.length) {
			this.go(items[k]);
			$('status').textContent = `${k + 1} of ${items.length}: ${$('status').textContent}`;
			return;
		}
		const end = direction > 0 ? 'last' : 'worst';
		$('status').textContent = items.length
			? `this is the ${end} of the ${items.length} longest`
			: NONE[what];
	}

	/* The whole of it is framed, in the lane of its victim. */
	go(item) {
		const { app } = this,
			{ lane, from, to, states } = item;
		if (states) {
			let k = item.k;
			for (let j = k; j < item.end; j++)
				if (states.length(j) > states.length(k)) k = j;
			app.goToState(states, k, item);
		} else {
			this.goToGap(lane, from, to);
		}
		this.current = { item, selection: app.state.selection };
	}

	goToGap(lane, from, to) {
		const { app } = this,
			run = lane.tracks[ROW.RUN],
			k = run ? run.at((from + to) / 2, 0) : -1,
			row = lane.rows[lowerBound(lane.times, from)] ?? -1;
		app.frame(lane, from, to, { row, span: k >= 0 ? { track: run, k } : null });
	}

	describe({ states, lane, k, end, from, to }) {
		const { trace } = this.app;
		if (states)
			return states
				.culprits(k, end)
				.slice(0, 3)
				.map(([name, ns]) => `${trace.nameText[name]} (${durationText(ns)})`)
				.join(', ');
		const run = lane.tracks[ROW.RUN],
			at = run ? run.at((from + to) / 2, 0) : -1;
		return [
			at >= 0 ? trace.spanText(run, at) : '',
			...(lane.states ? lane.states.sums(from, to) : []).map(
				([text, ns]) => `${text} ${durationText(ns)}`,
			),
		]
			.filter((word) => word)
			.join(', ');
	}

	column(what, heading, none) {
		const { trace } = this.app,
			items = this.list(what),
			list = el('div', { className: 'list' });
		for (const item of items) {
			const button = el(
				'button',
				{ type: 'button' },
				el('b', durationText(item.ns)),
				el('span', trace.laneText(item.lane)),
				el('small', `${trace.clockText(item.from)}  ${this.describe(item)}`),
			);
			button.addEventListener('click', () => this.go(item));
			list.append(button);
		}
		return el('div', el('h2', heading), items.length ? list : el('p', none));
	}

	fill() {
		$('longest').replaceChildren(
			this.column(
				'stolen',
				'Longest stolen times (e)',
				NONE.stolen,
			),
			this.column(
				'gaps',
				'Longest stalls: no event of a vCPU that had work (g)',
				NONE.gaps,
			),
		);
	}
}
