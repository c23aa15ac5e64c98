// SPDX-License-Identifier: GPL-2.0-or-later
/* Puts all together, and listens to pointer and keys. */

const BRIEFLY =
	'wasd or wheel and drag: move and zoom · click: select · / search · \\ filter · ? keys';

const LEAST_LANES = 220; /* pixels: two lanes of a vCPU and its thread */

class App {
	constructor(trace) {
		this.trace = trace;
		this.hidden = new Set(); /* kinds of events */
		this.filterRows = null;
		this.matches = null;
		this.state = {
			hover: null,
			selection: null,
			marks: [null, null],
			range: null,
			near: null,
			foundMarks: null,
			redraw: () => this.draw(),
		};
		this.win = new Viewport(trace, () => this.draw());
		this.view = new View(trace, this.win, this.state);
		this.ruler = new Ruler(trace, this.win, this.state);
		this.overview = new Overview(trace, this.win);
		this.table = new Table(trace, this.state, (row) =>
			this.select({ row, span: null }, true),
		);
		const dark = matchMedia('(prefers-color-scheme: dark)');
		dark.addEventListener('change', () => this.paint(dark.matches));
		this.paint(dark.matches);
		fillHead(trace);
		fillHelp();
		this.showDetails();
		new ResizeObserver(() => this.resized()).observe($('lanes'));
		new ResizeObserver(() => this.table.resize()).observe($('rows'));
		this.view.scroller.addEventListener('scroll', () => this.draw());
		this.longest = new Longest(this);
		this.verdict = new Verdict(this);
		this.flame = new FlameGraph(this);
		this.fragment = new Fragment(this);
		new Pointer(this);
		new Controls(this);
		this.resize();
		this.fragment.apply();
	}

	paint(dark) {
		this.palette = new Palette(this.trace, dark);
		this.overview.ready = false;
		fillLegend(this.palette);
		fillKinds(this);
		this.table.colors = this.palette.groupTexts.map((color) => css(color));
		this.table.draw();
		this.fillLabels();
		this.draw();
		if (this.flame) this.flame.draw();
	}

	resize() {
		this.view.resize();
		this.ruler.resize(this.view.width, this.view.scale);
		this.overview.resize(this.view.width, this.view.scale);
		this.draw();
	}

	/* This frame's drawing was before: what is resized now is empty unless it is drawn at once. */
	resized() {
		this.resize();
		cancelAnimationFrame(this.drawing);
		this.drawNow();
	}

	/* Everything, in the next frame. */
	draw() {
		if (!this.drawing) this.drawing = requestAnimationFrame(() => this.drawNow());
	}

	drawNow() {
		this.drawing = 0;
		/* The table is slower than the lanes: not in each frame. */
		if (!this.following) this.following = setTimeout(() => this.follow(), 60);
		this.fragment.changed();
		this.placePins();
		this.view.draw(this.palette);
		this.overview.draw(this.palette);
		this.drawOverNow();
	}

	/* The table begins where the view does, unless the selected event is in view. */
	follow() {
		const { win, trace, table, followed } = this,
			{ selection } = this.state;
		this.following = 0;
		if (followed && followed.t0 === win.t0 && followed.t1 === win.t1) return;
		this.followed = { t0: win.t0, t1: win.t1 };
		const time = selection && selection.row >= 0 ? trace.time[selection.row] : NaN;
		if (time >= win.t0 && time <= win.t1) return;
		table.goTo(table.place(lowerBound(trace.time, win.t0)));
	}

	/* What follows the pointer alone. */
	drawOver() {
		if (!this.drawing && !this.drawingOver)
			this.drawingOver = requestAnimationFrame(() => this.drawOverNow());
	}

	drawOverNow() {
		this.drawingOver = 0;
		this.view.drawOver();
		this.ruler.draw(this.palette);
		this.tip();
		if (!this.trace.nr) return; /* the scale is of no time */
		$('corner').replaceChildren(
			'shown: ',
			el('b', durationText(this.win.length)),
			el('br'),
			`from ${this.trace.clockText(this.win.t0)}`,
		);
	}

	tip() {
		const { hover } = this.state,
			parts = hover && hover.place && !hover.quiet ? tipOf(this, hover) : [];
		const tip = $('tip');
		tip.hidden = !parts.length;
		if (!parts.length) return;
		tip.replaceChildren(...parts);
		/* Below the lane, or above it where there is more room: it covers nothing of the lane. */
		tip.style.maxHeight = '';
		const { width, height } = tip.getBoundingClientRect(),
			over = this.view.over.getBoundingClientRect().top,
			above = over + hover.box.y - 12,
			below = innerHeight - (over + hover.box.y + hover.box.height) - 12,
			room = below >= height || below >= above ? below : above,
			high = Math.min(height, Math.max(room, 40));
		tip.style.maxHeight = `${high}px`;
		tip.style.left = `${Math.max(4, Math.min(hover.left + 14, innerWidth - width - 4))}px`;
		tip.style.top = `${room === below ? innerHeight - below - 4 : Math.max(4, above + 4 - high)}px`;
	}

	fillLabels() {
		const { trace, view } = this;
		$('labels').replaceChildren(
			...view.places.map((place) => {
				const { lane, group, y, height } = place,
					label = el('div', { className: 'label', role: 'listitem' });
				if (lane.kind === LANE.GROUP) {
					const folded = view.folded.has(group),
						button = el(
							'button',
							{ type: 'button' },
							`${folded ? '▸' : '▾'} ${group.name}`,
							el(
								'small',
								group.kind === group.name
									? ''
									: group.kind,
							),
						);
					button.setAttribute('aria-expanded', String(!folded));
					button.addEventListener('click', () => this.fold(group));
					label.className += ' group';
					label.append(button);
				} else if (lane.kind === LANE.THREAD) {
					label.className += ' thread';
					label.append(`${vcpuText(lane.number)} thread ${lane.tid}`);
				} else {
					label.append(
						`${group.kind === 'host' ? 'CPU' : 'vCPU'} ${lane.number}`,
						el(
							'small',
							`${countText(lane.rows.length)} event${lane.rows.length === 1 ? '' : 's'}`,
						),
					);
				}
				if (lane.kind !== LANE.GROUP) label.append(this.pinButton(place));
				if (place.pinned) label.className += ' pinned';
				label.title = trace.laneText(lane);
				label.style.borderLeftColor = css(
					this.palette.groups[lane.group],
				);
				label.style.top = `${y}px`;
				label.style.height = `${height}px`;
				return label;
			}),
		);
	}

	pinButton({ lane, pinned }) {
		const button = el('button', { type: 'button', className: 'pin' }, pinned ? 'unpin' : 'pin');
		button.ariaPressed = String(!!pinned);
		button.ariaLabel = `pin ${this.trace.laneText(lane)}`;
		button.addEventListener('click', () => this.pin(lane));
		return button;
	}

	/* A lane stays on top while the others scroll; or does so no longer. */
	pin(lane) {
		const { view } = this,
			place = view.placeOf(lane);
		if (!view.pinned.delete(lane)) {
			if (view.pinnedHeight + place.height > 0.75 * view.shown) {
				$('status').textContent = 'no room for another pinned lane';
				return;
			}
			view.pinned.add(lane);
		}
		this.state.hover = null;
		view.lay();
		this.fillLabels();
		this.resize();
	}

	placePins() {
		const { places, scroller } = this.view;
		[...$('labels').children].forEach((label, k) => {
			if (places[k].pinned) label.style.top = `${places[k].y + scroller.scrollTop}px`;
		});
	}

	fold(group) {
		const { folded } = this.view;
		this.state.hover = null;
		if (!folded.delete(group)) folded.add(group);
		this.view.lay();
		this.fillLabels();
		this.resize();
	}

	/* {row, span}; @move: also where the lanes are. */
	select(selection, move) {
		const { state, trace, win } = this;
		state.selection = selection;
		state.near = null;
		if (selection && selection.row >= 0) {
			const lane = trace.lanes[trace.lane[selection.row]],
				time = trace.time[selection.row];
			const within = (3 * win.length) / this.view.width;
			const from = lowerBound(lane.shownTimes, time - within);
			state.near = new Set(
				lane.shown.subarray(
					from,
					Math.min(
						from + 500,
						upperBound(lane.shownTimes, time + within),
					),
				),
			);
			if (move) {
				win.reveal(time);
				this.view.revealLane(lane);
			}
			this.table.reveal(selection.row);
		} else {
			this.table.draw();
		}
		this.showDetails();
		this.announce(selection);
		this.draw();
	}

	/* Panels leave the lanes too little of a small window: what was chosen there is to be seen. */
	makeRoom() {
		for (const section of ['longest', 'profile', 'head', 'verdict'])
			if (this.view.scroller.clientHeight < LEAST_LANES && !$(section).hidden)
				$(`${section}button`).click();
		this.resize();
	}

	/* The whole of a time, and the lane that it is about; null: none in particular. */
	frame(lane, from, to, selection = null) {
		const around = 0.25 * (to - from);
		this.makeRoom();
		this.state.hover = null;
		this.state.range = { from, to };
		this.win.set(from - around, to + around);
		this.select(selection);
		if (lane) this.show(lane);
	}

	/* A lane, whose group may be folded; and @too, if there is room for both. */
	show(lane, too = lane) {
		const { trace, view } = this;
		for (const one of [lane, too])
			if (view.folded.has(trace.groups[one.group])) this.fold(trace.groups[one.group]);
		view.revealLane(lane, too);
	}

	/* To a state, from elsewhere; @whole: the time to frame, instead of that of the state. */
	goToState(states, k, whole = null) {
		const { start, end, lane } = states,
			run = lane.tracks[ROW.RUN],
			at = run ? run.at(start[k], 0) : -1;
		const around = 2 * Math.max(end[k] - start[k], this.win.length / 500);
		this.state.hover = null;
		this.state.range = null;
		if (!whole && end[k] - start[k] < this.win.length / 50)
			this.win.set(start[k] - around, end[k] + around);
		if (!whole) this.win.reveal(start[k], end[k]);
		this.select({
			row: this.view.nearest(lane.shown, lane.shownTimes, start[k]) ?? -1,
			span: at >= 0 ? { track: run, k: at } : null,
			state: { states, k },
		});
		if (whole) {
			this.makeRoom();
			const margin = 0.25 * (whole.to - whole.from);
			this.win.set(whole.from - margin, whole.to + margin);
		}
		this.show(lane, culpritLane(this.trace, states.culprit[k]) || lane);
	}

	/* To a task's wait, from its wake-up on. */
	goToWait(run, k, from) {
		const { lane } = run;
		this.frame(lane, from, run.start[k], {
			row: this.view.nearest(lane.rows, lane.times, run.start[k]),
			span: { track: run, k },
		});
	}

	/* To the event by which a task was woken. */
	goToWaker({ woken, wakerLane }) {
		const lane = this.trace.lanes[wakerLane],
			run = lane.tracks[ROW.RUN],
			k = run ? run.at(woken, 0) : -1;
		this.select(
			{
				row: this.view.nearest(lane.rows, lane.times, woken),
				span: k >= 0 ? { track: run, k } : null,
			},
			true,
		);
	}

	/* What a vCPU did over a task; the lane of the one that took its time comes into view. */
	selectState(state, row, span) {
		const { states, k } = state,
			lane = culpritLane(this.trace, states.culprit[k]);
		if (states.state[k] === STATE.STOLEN && lane) {
			if (this.view.folded.has(this.trace.groups[lane.group]))
				this.fold(this.trace.groups[lane.group]);
			this.view.revealLane(lane, states.lane);
		}
		this.select({ row, span, state });
	}

	setRange(from, to) {
		this.state.range = { from, to };
		this.showDetails();
		this.drawOver();
	}

	showDetails() {
		$('details').replaceChildren(...detailsOf(this));
	}

	/* In words, for those who don't see the lanes. */
	announce(selection) {
		const { trace } = this,
			texts = [];
		if (selection && selection.state) {
			const { states, k } = selection.state;
			texts.push(`${stateText(states, k)} for ${durationText(states.length(k))}`);
			if (states.state[k] === STATE.STOLEN)
				texts.push(`ran instead: ${culpritText(trace, states.culprit[k])}`);
		}
		if (selection && selection.span) {
			const { track, k } = selection.span;
			texts.push(
				`${trace.spanText(track, k)} for ${durationText(track.length(k))}`,
			);
		}
		if (selection && selection.row >= 0) {
			const { row } = selection,
				where = trace.laneText(trace.lanes[trace.lane[row]]);
			texts.push(`${where}, ${trace.clockText(trace.time[row])}`);
			texts.push(`${trace.taskText(row)} ${trace.eventText(row)}`);
		}
		$('status').textContent = texts.join(' · ') || BRIEFLY;
	}

	/* Search and filter ------------------------------------------------------------- */

	/* Runs a query of which only the latest counts; @done gets its rows. */
	async query(which, text, output, done) {
		const token = (this[which] = {}),
			breathe = breather();
		output.textContent = text.trim() ? '…' : '';
		const rows = await runQuery(
			this.trace,
			text,
			() => this[which] === token,
			async (share) => {
				await breathe();
				if (this[which] === token)
					output.textContent = `${Math.round(100 * share)} %`;
			},
		);
		if (this[which] !== token) return;
		output.textContent = rows ? countText(rows.length) : '';
		done(rows);
		this.overview.ready = false;
		this.draw();
	}

	search(text) {
		return this.query('searching', text, $('searchcount'), (rows) => {
			const { trace, state } = this,
				lists = rows && trace.byLane(rows.length, (k) => rows[k]);
			this.matches = rows;
			state.foundMarks = rows && new Uint8Array(trace.nr);
			for (const row of rows || []) state.foundMarks[row] = 1;
			for (const lane of trace.lanes)
				lane.found =
					rows &&
					Float64Array.from(
						lists[lane.index],
						(row) => trace.time[row],
					);
			if (rows && rows.length) this.step(0);
			this.table.draw();
		});
	}

	/* To the next match (1), the one before (-1), the first not before the selection (0). */
	step(direction) {
		const {
			matches,
			state: { selection },
			win,
		} = this;
		if (!matches || !matches.length) return;
		const row =
			selection && selection.row >= 0
				? selection.row
				: lowerBound(this.trace.time, win.t0) - 1;
		let k =
			direction < 0
				? lowerBound(matches, row) - 1
				: direction
					? upperBound(matches, row)
					: lowerBound(matches, row);
		k = (k + matches.length) % matches.length;
		this.select({ row: matches[k], span: null }, true);
		$('searchcount').textContent =
			`${countText(k + 1)} of ${countText(matches.length)}`;
	}

	filter(text) {
		return this.query('filtering', text, $('filtercount'), (rows) => {
			this.filterRows = rows;
			this.applyFilter();
		});
	}

	showKinds(kinds, on) {
		for (const kind of kinds)
			if (on) this.hidden.delete(kind);
			else this.hidden.add(kind);
		this.applyFilter();
	}

	applyFilter() {
		const { trace, hidden } = this;
		this.state.hover = null; /* its rows may be hidden now */
		let rows = this.filterRows;
		if (hidden.size) {
			const yes = Uint8Array.from(trace.nameText, (text, k) => !hidden.has(k));
			rows = (rows || Uint32Array.from(trace.kind, (kind, row) => row)).filter(
				(row) => yes[trace.kind[row]],
			);
		}
		const lists = rows && trace.byLane(rows.length, (k) => rows[k]);
		for (const lane of trace.lanes) {
			lane.shown = rows ? lists[lane.index] : lane.rows;
			lane.shownTimes = rows
				? Float64Array.from(lane.shown, (row) => trace.time[row])
				: lane.times;
		}
		this.table.setRows(rows);
		if (this.state.selection && this.state.selection.row >= 0)
			this.table.reveal(this.state.selection.row);
		this.overview.ready = false;
		this.draw();
	}

	/* Steps ------------------------------------------------------------------------- */

	stepInLane(direction) {
		const {
			trace,
			state: { selection },
		} = this;
		if (!selection || selection.row < 0) return this.stepInTable(direction);
		const lane = trace.lanes[trace.lane[selection.row]],
			k = lowerBound(lane.shown, selection.row);
		const next = direction > 0 ? k + (lane.shown[k] === selection.row) : k - 1;
		return (
			next >= 0 &&
			next < lane.shown.length &&
			this.select({ row: lane.shown[next], span: null }, true)
		);
	}

	stepInTable(direction) {
		const {
			table,
			state: { selection },
		} = this;
		let k = Math.floor(table.top);
		if (selection && selection.row >= 0) {
			k = table.place(selection.row);
			k += direction < 0 ? -1 : table.row(k) === selection.row ? 1 : 0;
		}
		return (
			k >= 0 &&
			k < table.nr &&
			this.select({ row: table.row(k), span: null }, true)
		);
	}

	stepSpan(direction) {
		const { trace, state } = this,
			span = state.selection && state.selection.span;
		const k = span ? span.k + direction : -1;
		if (k < 0 || k >= span.track.nr) return;
		const { lane } = span.track,
			start = span.track.start[k];
		const row =
			lane.kind === LANE.THREAD
				? trace.rowOf({ track: span.track, k })
				: this.view.nearest(lane.shown, lane.shownTimes, start);
		this.select({ row, span: { track: span.track, k } }, false);
		this.win.reveal(span.track.start[k], span.track.end[k]);
	}

	fill() {
		const { selection, range } = this.state;
		if (range)
			return this.win.set(
				Math.min(range.from, range.to),
				Math.max(range.from, range.to),
			);
		if (selection && selection.state) {
			const { states, k } = selection.state,
				margin = states.length(k) * 0.5;
			return this.win.set(states.start[k] - margin, states.end[k] + margin);
		}
		if (selection && selection.span) {
			const { track, k } = selection.span,
				margin = track.length(k) * 0.1;
			return this.win.set(track.start[k] - margin, track.end[k] + margin);
		}
		if (selection && selection.row >= 0) {
			const time = this.trace.time[selection.row],
				length = Math.min(this.win.length / 10, 1e6);
			return this.win.set(time - length / 2, time + length / 2);
		}
		return this.win.all();
	}

	mark() {
		const { state, trace } = this,
			{ selection, hover, marks } = state;
		const time =
			selection && selection.row >= 0
				? trace.time[selection.row]
				: hover
					? hover.time
					: null;
		if (time === null) return;
		if (marks[0] === null || marks[1] !== null) state.marks = [time, null];
		else state.marks = [marks[0], time];
		this.showDetails();
		this.draw();
	}

	clearMarks() {
		this.state.marks = [null, null];
		this.showDetails();
		this.draw();
	}
}

async function start() {
	const breathe = breather();
	try {
		const chunks = await takeChunks(async (share) => {
			$('loadtext').textContent = `loading the trace: ${Math.round(100 * share)} %`;
			await breathe();
		});
		if (chunks.meta.length !== 1)
			throw new Error('the page is truncated: export it again');
		/* For the console, and for tests. */
		globalThis.tracebraid = new App(new Trace(chunks));
		$('loading').hidden = true;
		globalThis.tracebraid.announce(null);
	} catch (error) {
		$('loadtext').textContent = `cannot show this trace: ${error.message}`;
		throw error;
	}
}

document.addEventListener('DOMContentLoaded', start);
