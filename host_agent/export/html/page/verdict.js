// SPDX-License-Identifier: GPL-2.0-or-later
/* What the analyses 'summary' and 'stalls' found, as they printed it; each moment is a link. */

const SHARE = '_ppm',
	MOMENT = '_at_ns',
	TIME = '_ns';
const STALL_PARTS = [
	'stolen',
	'throttled',
	'running',
	'guest',
	'hypervisor',
	'vmm',
	'halted',
	'blocked',
	'sleeping',
	'stopped',
	'offline',
	'unknown',
];

/* "worst_stall_ns": "worst stall" */
function headOf(key) {
	return key.replace(/_(ppm|ns|events)$/, '').replaceAll('_', ' ');
}

function figureText(key, value) {
	if (value === null) return '-';
	if (key.endsWith(SHARE)) return `${(value / 1e4).toFixed(2)} %`;
	if (key.endsWith(TIME)) return durationText(value);
	return typeof value === 'number' ? countText(value) : String(value);
}

class Verdict {
	constructor(app) {
		this.app = app;
		this.found = app.trace.verdict;
		if (this.found && this.found.summary.guests.length) this.fill();
		else {
			$('verdict').hidden = true;
			$('verdictbutton').hidden = true;
		}
	}

	link(text, name, act) {
		const button = el('button', { type: 'button', className: 'link' }, text);
		button.setAttribute('aria-label', name);
		button.addEventListener('click', act);
		return button;
	}

	/* Times of a guest whose vCPU is not named: on all of its lanes. */
	cell(guest, key) {
		const ns = guest[key],
			at = key.endsWith(TIME) ? guest[key.replace(/_ns$/, MOMENT)] : null,
			text = figureText(key, ns),
			cell = el('td');
		if (typeof ns === 'number') cell.className = 'number';
		if (typeof at !== 'number') cell.append(text);
		else
			cell.append(
				this.link(text, `${guest.guest}: show the ${headOf(key)}, ${text}`, () =>
					this.goToGuest(guest, key, at, ns),
				),
			);
		return cell;
	}

	table() {
		const { guests } = this.found.summary,
			keys = Object.keys(guests[0]).filter((key) => !key.endsWith(MOMENT));
		return el(
			'table',
			el('thead', el('tr', ...keys.map((key) => this.head(key)))),
			el(
				'tbody',
				...guests.map((guest) =>
					el('tr', ...keys.map((key) => this.cell(guest, key))),
				),
			),
		);
	}

	head(key) {
		const head = el('th', headOf(key));
		head.setAttribute('scope', 'col');
		if (typeof this.found.summary.guests[0][key] !== 'string') head.className = 'number';
		return head;
	}

	/* "185.3 ms stolen (guest1/vCPU 0: md5sum[103] 25.50 ms, …), 110.3 ms running" */
	because(stall) {
		const parts = STALL_PARTS.map((state) => [state, stall[`${state}_ns`]])
			.filter(([, ns]) => ns)
			.sort((a, b) => b[1] - a[1]);
		return parts
			.map(([state, ns]) => {
				const by = state === 'stolen' ? stall.culprits.slice(0, 2) : [],
					who = by.map(({ culprit, ns: of }) => `${culprit} ${durationText(of)}`),
					more = stall.culprits.length > by.length && who.length ? ', …' : '';
				return `${durationText(ns)} ${state}${who.length ? ` by ${who.join(', ')}${more}` : ''}`;
			})
			.join('; ');
	}

	stall(stall) {
		const took = durationText(stall.duration_ns),
			text = `${stall.vcpu}: no event for ${took}, task ${stall.task}`;
		const item = el(
			'li',
			this.link(text, `show the stall: ${text}`, () => this.goToStall(stall)),
			` at ${this.app.trace.clockText(stall.at_ns)}`,
			el('small', this.because(stall)),
		);
		item.title = this.because(stall);
		return item;
	}

	fill() {
		const { summary, stalls } = this.found,
			known = (100 * summary.proven_ns) / summary.observed_ns;
		const list = el('ol', ...stalls.stalls.map((stall) => this.stall(stall)));
		$('verdict').replaceChildren(
			el(
				'div',
				{ className: 'summary' },
				this.table(),
				el(
					'p',
					`${durationText(summary.observed_ns)} of vCPU time` +
						(summary.observed_ns ? `, ${known.toFixed(2)} % proven` : ''),
					...(summary.missing || []).map((text) => `; ${text}`),
				),
			),
			el(
				'div',
				{ className: 'worst' },
				el('h2', 'Worst stalls'),
				stalls.stalls.length ? list : el('p', NONE.gaps),
			),
		);
	}

	/* "guest1/vCPU 0" */
	laneOf(name) {
		const { trace } = this.app;
		return trace.lanes.find(
			({ kind, group, number }) =>
				kind === LANE.CPU && `${trace.groups[group].name}/vCPU ${number}` === name,
		);
	}

	goToStall({ vcpu, at_ns: at, duration_ns: ns }) {
		const lane = this.laneOf(vcpu);
		if (lane) this.app.longest.goToGap(lane, at, at + ns);
		else this.app.frame(null, at, at + ns);
	}

	/* A stall begins with an event, a wait with a wake-up: of one of its vCPUs. */
	goToGuest({ guest }, key, at, ns) {
		const { app } = this,
			lanes = app.trace.lanes.filter(
			({ kind, group }) => kind === LANE.CPU && app.trace.groups[group].name === guest,
		);
		const waiting = lanes
			.map((lane) => ({ lane, k: wokenAt(lane, at, ns) }))
			.find(({ k }) => k >= 0);
		if (key.includes('wake') && waiting)
			return app.goToWait(waiting.lane.tracks[ROW.RUN], waiting.k, at);
		const lane = lanes.find(
			({ times }) => times[lowerBound(times, at)] === at && !hasEvent(times, at, at + ns),
		);
		return lane && !key.includes('wake')
			? app.longest.goToGap(lane, at, this.gapEnd(lane, at, ns))
			: app.frame(lanes[0] || null, at, at + ns);
	}

	/* A stall may include idle time, which its figure leaves out. */
	gapEnd({ times }, at, ns) {
		return Math.max(at + ns, times[upperBound(times, at)] ?? at + ns);
	}
}

function hasEvent(times, from, to) {
	const k = upperBound(times, from);
	return k < times.length && times[k] < to;
}

/* The span whose task was woken at a time, and ran after @ns; -1: none here. */
function wokenAt(lane, at, ns) {
	const run = lane.tracks[ROW.RUN],
		k = run ? lowerBound(run.start, at + ns, 0, run.nr) : -1;
	if (k < 0 || k >= run.nr || run.start[k] !== at + ns) return -1;
	const wait = waitOf({ track: run, k });
	return wait && wait.woken === at ? k : -1;
}
