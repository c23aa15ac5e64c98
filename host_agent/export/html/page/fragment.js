// SPDX-License-Identifier: GPL-2.0-or-later
/* The address: what is shown and selected, so that a reload, a link and Back lead there again. */

const SETTLED_MS = 400; /* one entry of the history for each movement, not for each frame */

class Fragment {
	constructor(app) {
		this.app = app;
		this.current = location.hash.slice(1);
		this.timer = 0;
		addEventListener('popstate', () => this.apply());
	}

	/* "t=31735.402148717,31735.418879000&row=123&span=5.0.17" */
	text() {
		const { trace, win, state } = this.app,
			{ selection, range } = state,
			times = (from, to) => `${trace.secondsText(from)},${trace.secondsText(to)}`,
			parts = [`t=${times(win.t0, win.t1)}`];
		if (range) parts.push(`range=${times(range.from, range.to)}`);
		if (selection && selection.row >= 0) parts.push(`row=${selection.row}`);
		if (selection && selection.span) {
			const { track, k } = selection.span;
			parts.push(`span=${track.lane.index}.${track.row}.${k}`);
		}
		if (selection && selection.state)
			parts.push(`state=${selection.state.states.lane.index}.${selection.state.k}`);
		return parts.join('&');
	}

	/* Something changes: notes it when it has settled. */
	changed() {
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.put(), SETTLED_MS);
	}

	put() {
		const text = this.text(),
			first = !this.current;
		if (text === this.current) return;
		this.current = text;
		if (first) history.replaceState(null, '', `#${text}`);
		else history.pushState(null, '', `#${text}`);
	}

	/* "31735.402148717", as a time of the page; null: not a time */
	time(text) {
		const match = /^(-?)(\d{1,12})\.(\d{9})$/.exec(text || '');
		if (!match) return null;
		const ns = BigInt(match[2] + match[3]);
		return Number((match[1] ? -ns : ns) - this.app.trace.base);
	}

	times(text) {
		const [from, to] = (text || '').split(',').map((part) => this.time(part));
		return from !== null && to !== undefined && to !== null && to > from
			? { from, to }
			: null;
	}

	/* Of lanes, tracks and places only those that exist. */
	selection(parts) {
		const { trace } = this.app,
			numbers = (name) => (parts.get(name) || '').split('.').map(Number);
		const [row] = parts.has('row') ? numbers('row') : [-1],
			[lane, track, k] = numbers('span'),
			[states, s] = numbers('state');
		const of = parts.has('span') && trace.lanes[lane] && trace.lanes[lane].tracks[track],
			own = parts.has('state') && trace.lanes[states] && trace.lanes[states].states;
		const made = {
			row: row >= 0 && row < trace.nr ? Math.floor(row) : -1,
			span: of && k >= 0 && k < of.nr ? { track: of, k: Math.floor(k) } : null,
		};
		if (own && s >= 0 && s < own.nr) made.state = { states: own, k: Math.floor(s) };
		return made.row >= 0 || made.span || made.state ? made : null;
	}

	/* Goes to the time and selection in the address. */
	apply() {
		const { app } = this,
			text = location.hash.slice(1),
			parts = new URLSearchParams(text),
			shown = this.times(parts.get('t'));
		this.current = shown ? text : '';
		if (!shown) {
			this.changed();
			return;
		}
		app.state.range = this.times(parts.get('range'));
		app.win.set(shown.from, shown.to);
		const selection = this.selection(parts);
		app.select(selection);
		if (selection && selection.row >= 0)
			app.view.revealLane(app.trace.lanes[app.trace.lane[selection.row]]);
		clearTimeout(this.timer);
	}
}
