// SPDX-License-Identifier: GPL-2.0-or-later
/* Texts: streams, events, legend, keys, the selection, the tip at the pointer. */

const KEYS = [
	['w s', 'zoom in and out at the pointer; so do + − and the wheel (with or without ctrl)'],
	['a d', 'move; so do dragging, shift and the wheel, and dragging in the overview'],
	['← →', 'the previous or next event in the lane of the selected one'],
	['↑ ↓', 'the previous or next event in the table'],
	['[ ]', 'the previous or next span in the row of the selected one'],
	['e E', 'the worst of the 100 longest times in which a vCPU was stolen, the next worst, and back'],
	[
		'g G',
		'likewise of the 100 longest stalls: a vCPU had work, and recorded no event',
	],
	['f', 'zoom to the selection'],
	['0', 'show all'],
	[
		'/',
		'search: words, "words with spaces", !not, event:… system:… task:… pid:… stream:… cpu:…',
	],
	['n N', 'the next match, the previous match'],
	['\\', 'filter, by the same words: lanes and table show only matching events'],
	[
		'm',
		'set mark A at the selection, then mark B, and show their distance; shift m clears',
	],
	[
		'shift drag',
		'select a time range (or drag in the ruler): shows which tasks ran in it, and how long',
	],
	['pin', 'at the name of a lane: keep it on top while the others scroll'],
	['wheel', 'over the names of the lanes: scroll the lanes'],
	['click', 'select the item and scroll the table to it; double click: zoom to the span'],
	['click', 'on stolen time: also mark the culprit, and bring its lane into view'],
	[
		'profile',
		'the button, if CPUs were sampled: a flame graph; a click on a frame zooms, and so do arrows and Enter',
	],
	['address', 'holds the time and the selection: reload, Back and links lead there again'],
	['Esc', 'clear the selection, close panels'],
];

function boundText(bound) {
	return bound === null ? 'bound unknown' : `bound ≤ ${durationText(bound)}`;
}

function clockText(stream) {
	const parts = [
		`clock ${stream.trace_clock || stream.clock}${stream.reason ? ` (${stream.reason})` : ''}`,
	];
	if (stream.drift_ppm !== undefined) parts.push(`drift ${stream.drift_ppm.toFixed(3)} ppm`);
	if (stream.bound_ns !== 0) parts.push(boundText(stream.bound_ns));
	if (stream.epochs > 1) parts.push(`${stream.epochs} epochs`);
	return parts.join(', ');
}

/* A VM without the driver: it has no events, so neither a kernel nor a clock nor an account. */
function vmCard(stream) {
	return el(
		'div',
		{ className: 'stream' },
		el('b', stream.stream),
		` VM without the driver, process ${stream.pid}, ` +
			(stream.cpus
				? `${stream.cpus} vCPU${stream.cpus === 1 ? '' : 's'}`
				: 'vCPU threads unknown'),
		...(stream.end && stream.end !== 'recording stopped'
			? [el('div', { className: 'lost' }, `ended: ${stream.end}`)]
			: []),
	);
}

function streamCard(stream) {
	if (stream.kind === 'vm') return vmCard(stream);
	const { written, read, lost, left } = stream,
		guest = stream.kind === 'guest';
	const card = el(
		'div',
		{ className: 'stream' },
		el('b', stream.stream),
		` Linux ${stream.kernel} ${stream.machine}, ${stream.cpus} ${guest ? 'vCPUs' : 'CPUs'}`,
		el('div', clockText(stream)),
	);
	const account = el(
		'div',
		written === undefined
			? 'accounting unknown: the recording was killed or still runs'
			: `written ${written} = read ${read} + lost ${lost} + left ${left}` +
					(written === read + lost + left
						? ''
						: ' (does not add up)'),
	);
	if (lost) account.className = 'lost';
	card.append(account);
	if (stream.end && stream.end !== 'recording stopped')
		card.append(el('div', { className: 'lost' }, `ended: ${stream.end}`));
	return card;
}

function fillHead(trace) {
	const { head, totals } = trace;
	const hostFirst = (a, b) => (a.kind !== 'host') - (b.kind !== 'host');
	$('head').replaceChildren(...[...trace.streams].sort(hostFirst).map(streamCard));
	$('about').textContent =
		`host ${head.host}, clock ${head.clock}: ${countText(totals.events)} event${totals.events === 1 ? '' : 's'}` +
		`${trace.nr ? ` in ${durationText(trace.lasts)}` : ''}, ${countText(totals.lost)} lost` +
		`${totals.more_lost ? ' plus an unknown number' : ''}` +
		`, order uncertain for ${countText(totals.uncertain)}`;
	$('about').title = $('about').textContent;
	document.title = `${trace.groups.map((group) => group.name).join(', ')} – tracebraid`;
}

/* The kinds of events with a box for each, by system. */
function fillKinds(app) {
	const { trace } = app,
		counts = new Uint32Array(trace.nameText.length),
		systems = new Map();
	for (const kind of trace.kind) counts[kind]++;
	counts.forEach((nr, kind) => {
		if (!nr || trace.nameType[kind] !== NAME.EVENT) return;
		const system = trace.nameText[trace.nameNumber[kind]];
		systems.set(system, [...(systems.get(system) || []), kind]);
	});
	const list = [];
	for (const system of [...systems.keys()].sort()) {
		const kinds = systems.get(system).sort((a, b) => counts[b] - counts[a]),
			boxes = [];
		const all = el('button', { type: 'button', ariaLabel: `all of ${system}` }, 'all'),
			none = el('button', { type: 'button', ariaLabel: `none of ${system}` }, 'none');
		list.push(el('div', { className: 'system' }, system, all, none));
		for (const kind of kinds) {
			const box = el('input', { type: 'checkbox', checked: true });
			box.addEventListener('change', () => app.showKinds([kind], box.checked));
			boxes.push(box);
			list.push(
				el(
					'label',
					box,
					swatch(app.palette.names[kind]),
					el('span', trace.nameText[kind]),
					el('output', countText(counts[kind])),
				),
			);
		}
		for (const [button, on] of [
			[all, true],
			[none, false],
		])
			button.addEventListener('click', () => {
				boxes.forEach((box) => (box.checked = on));
				app.showKinds(kinds, on);
			});
	}
	$('kinds').replaceChildren(...list);
}

function closeButton(dialog) {
	const button = el('button', { type: 'button' }, 'close');
	button.addEventListener('click', () => dialog.close());
	return button;
}

function fillHelp() {
	const list = el('dl');
	for (const [keys, what] of KEYS)
		list.append(
			el('dt', ...keys.split(' ').flatMap((key) => [el('kbd', key), ' '])),
			el('dd', what),
		);
	$('help').replaceChildren(el('h2', 'Keys and pointer'), list, closeButton($('help')));
}

function fillLegend(palette) {
	const list = el('dl'),
		hues = [0, 90, 200].map((hue) => palette.tone(hue, 0.5));
	const add = (colors, what) => list.append(el('dt', ...colors.map(swatch)), el('dd', what));
	add(hues, 'the task that runs on a CPU, one color for each; empty: the CPU idles');
	add(
		[palette.stolen, palette.unknown],
		'bars before a task that is selected or under the pointer: runnable, blocked; arrow: what woke it',
	);
	add([palette.ofName(NAME.SYSCALL, 'read', 0)], 'system call of the task that runs');
	add(
		[palette.ofName(NAME.IRQ, 'softirq', 0)],
		'interrupt, softirq, timer; stacked as they nest',
	);
	add(
		[palette.ofName(NAME.ON_CPU, '', 0)],
		'a vCPU’s thread runs on a CPU of the host, one color for each CPU',
	);
	add(
		[palette.ofName(NAME.WAITING, '', 0)],
		'a vCPU’s thread is runnable but has no CPU: steal time of the guest',
	);
	const hatched = (color, degrees, what) => {
		const box = swatch(color);
		const stripes = `${css(color)} 0 2px, ${css(hues[2])} 2px 5px`;
		box.style.background = `repeating-linear-gradient(${degrees}deg, ${stripes})`;
		list.append(el('dt', box), el('dd', what));
	};
	hatched(
		palette.stolen,
		-45,
		'over a guest’s task: its vCPU was stolen: runnable, but something else ran; ' +
			'or throttled: its cgroup’s CPU quota held it back. ' +
			'Hover to see what ran; click to go there. Where states share a pixel, heights are shares',
	);
	hatched(
		palette.exited,
		45,
		'likewise: the vCPU was in the hypervisor or the VMM, not in the guest',
	);
	add(
		[mix(hues[2], palette.back, 0.25)],
		'a pale task: its vCPU’s thread slept, or was stopped; or the vCPU is offline',
	);
	add(
		[palette.unknown],
		'the state of the vCPU is unknown: events of the host were lost, or none has proven it yet',
	);
	add([palette.ofName(NAME.GUEST, '', 0)], 'guest mode, from kvm_entry to kvm_exit');
	add(
		[palette.ofName(NAME.EXIT, 'io', 0)],
		'the host handles an exit, until the next kvm_entry; named by the exit reason',
	);
	add(
		[palette.ofName(NAME.EXIT, 'hlt', 0)],
		'the same, but the vCPU halted: its guest idles',
	);
	add(
		[palette.tick],
		'events: thin lines, each in the color of its name, grey where several share a pixel',
	);
	add([palette.loss], 'hatched: events were lost here; states are unknown');
	add(
		[palette.note],
		'flag: a note. Band: between two epochs of a clock; times are not interpolated across it',
	);
	add([palette.selected], 'bar below an event, when zoomed in: its error bound');
	list.append(
		el('dt', 'pale'),
		el(
			'dd',
			'many spans in one pixel: the color of the longest one, paler with more idle time',
		),
	);
	$('legend').replaceChildren(el('h2', 'Legend'), list, closeButton($('legend')));
}

/* The selection, in full ------------------------------------------------------------------- */

function eventDetails(app, row) {
	const { trace } = app,
		text = trace.texts.of(row, () => app.showDetails());
	const {
		marks: [a],
	} = app.state;
	return [
		el(
			'h2',
			trace.isEvent(row)
				? `${trace.systemText(row)}:${trace.eventText(row)}`
				: trace.eventText(row),
		),
		terms([
			['text', text === null ? '…' : text],
			['time', trace.clockText(trace.time[row])],
			['within', trace.isEvent(row) ? `± ${trace.boundText(row)}` : ''],
			[
				'order',
				trace.uncertain[row]
					? 'uncertain: may have happened before an earlier line'
					: '',
			],
			['since A', a === null ? '' : durationText(trace.time[row] - a)],
			['where', trace.laneText(trace.lanes[trace.lane[row]])],
			['task', trace.taskText(row)],
		]),
	];
}

/* A vCPU's states within a time, as terms. */
function stateTerms(states, t0, t1) {
	const length = t1 - t0;
	return states
		.sums(t0, t1)
		.map(([text, ns]) => [
			text,
			`${durationText(ns)}  ${((100 * ns) / length).toFixed(1)} %`,
		]);
}

const MOST_CULPRITS = 12;

/* A stolen part in full: its episode, and who ran meanwhile; each is a button that goes there. */
function episodeDetails(app, states, k) {
	const { trace } = app,
		[from, to] = states.episode(k),
		list = el('div', { className: 'culprits' });
	const all = states.culprits(from, to);
	for (const [name, ns] of all.slice(0, MOST_CULPRITS)) {
		const button = el(
			'button',
			{ type: 'button' },
			`${durationText(ns)}  ${culpritText(trace, name)}`,
		);
		let longest = -1;
		for (let j = from; j < to; j++)
			if (
				states.culprit[j] === name &&
				(longest < 0 || states.length(j) > states.length(longest))
			)
				longest = j;
		button.addEventListener('click', () => app.goToState(states, longest));
		list.append(button);
	}
	if (all.length > MOST_CULPRITS)
		list.append(el('p', `and ${all.length - MOST_CULPRITS} more`));
	const took = durationText(states.end[to - 1] - states.start[from]);
	return [el('p', `Runnable, not running, for ${took} in all. On its CPU ran:`), list];
}

/* The cgroup whose CPU quota held it back, of a throttled part. */
function quotaText(trace, states, k) {
	return states.state[k] === STATE.THROTTLED
		? `the CPU quota of ${culpritText(trace, states.culprit[k])}`
		: '';
}

function stateDetails(app, { states, k }) {
	const { trace } = app,
		stolen = states.state[k] === STATE.STOLEN;
	return [
		el('h2', `${trace.laneText(states.lane)}: ${stateText(states, k)}`),
		terms([
			['from', trace.clockText(states.start[k])],
			['for', durationText(states.length(k))],
			['by', stolen ? culpritText(trace, states.culprit[k]) : quotaText(trace, states, k)],
		]),
		...(stolen ? episodeDetails(app, states, k) : []),
	];
}

/* What the task did before; the waker is a button that goes there. */
function waitDetails(app, wait) {
	const { trace } = app,
		text = wakeText(trace, wait),
		parts = [terms([['before', waitText(trace, wait)]])];
	if (!text) return parts;
	const button = el('button', { type: 'button' }, text);
	button.addEventListener('click', () => app.goToWaker(wait));
	return [...parts, el('div', { className: 'culprits' }, button)];
}

function spanDetails(app, { track, k }) {
	const { trace } = app,
		{ states } = track.lane;
	const did = states && track.row === ROW.RUN,
		wait = waitOf({ track, k });
	return [
		el('h2', trace.spanText(track, k)),
		terms([
			['from', trace.clockText(track.start[k])],
			['for', durationText(track.length(k))],
			['where', trace.laneText(track.lane)],
		]),
		...(wait ? waitDetails(app, wait) : []),
		...(did ? [terms(stateTerms(states, track.start[k], track.end[k]))] : []),
	];
}

/* Who had how much of a stretch of time. */
function rangeDetails(app, { from, to }) {
	const { trace } = app,
		t0 = Math.min(from, to),
		t1 = Math.max(from, to),
		sums = new Map();
	let events = 0;
	for (const lane of trace.lanes) {
		if (lane.kind === LANE.CPU)
			events += lowerBound(lane.shownTimes, t1) - lowerBound(lane.shownTimes, t0);
		for (const row of [ROW.RUN, ROW.KVM])
			if (lane.tracks[row]) sumSpans(trace, lane.tracks[row], t0, t1, sums);
	}
	for (const lane of trace.lanes)
		for (const [text, ns] of lane.states ? lane.states.sums(t0, t1) : [])
			sums.set(`${trace.laneText(lane)}: ${text}`, ns);
	const most = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 24);
	return [
		el('h2', `${durationText(t1 - t0)} selected`),
		terms([
			['from', trace.clockText(t0)],
			['to', trace.clockText(t1)],
			['events', countText(events)],
		]),
		terms(
			most.map(([name, ns]) => [
				name,
				`${durationText(ns)}  ${((100 * ns) / (t1 - t0)).toFixed(1)} %`,
			]),
		),
	];
}

function sumSpans(trace, track, t0, t1, sums) {
	const name = trace.groups[track.lane.group].name,
		byName = new Map(),
		own = track.row === ROW.RUN ? track.lane.states : null;
	for (let k = upperBound(track.end, t0); k < track.nr && track.start[k] < t1; k++) {
		const from = Math.max(t0, track.start[k]),
			to = Math.min(t1, track.end[k]),
			ns = to - from - (own ? own.outside(from, to) : 0);
		byName.set(track.name[k], (byName.get(track.name[k]) || 0) + ns);
	}
	for (const [id, ns] of byName) {
		const text =
			trace.nameText[id] +
			(trace.nameType[id] === NAME.TASK ? `-${trace.nameNumber[id]}` : '');
		const key =
			track.lane.kind === LANE.THREAD
				? `${trace.laneText(track.lane)}: ${text}`
				: `${name}: ${text}`;
		sums.set(key, (sums.get(key) || 0) + ns);
	}
}

function detailsOf(app) {
	const {
			selection,
			range,
			marks: [a, b],
		} = app.state,
		parts = [];
	if (a !== null && b !== null) parts.push(terms([['A to B', durationText(b - a)]]));
	if (range) parts.push(...rangeDetails(app, range));
	if (selection && selection.state) parts.push(...stateDetails(app, selection.state));
	if (selection && selection.span) parts.push(...spanDetails(app, selection.span));
	if (selection && selection.row >= 0) parts.push(...eventDetails(app, selection.row));
	if (!parts.length)
		parts.push(
			el('p', 'Click an event, a span or a line of the table; ? lists all keys.'),
		);
	return parts;
}

/* The tip at the pointer -------------------------------------------------------------------- */

const TIP_EVENTS = 7,
	TIP_EVENTS_SMALL = 3; /* in a window that is not high */

function tipLine(app, row) {
	const { trace } = app,
		text = trace.texts.of(row, app.state.redraw) || '…';
	const what = trace.isEvent(row) ? `${trace.taskText(row)}  ${trace.eventText(row)}  ` : '';
	return el('div', { className: 'event' }, what + text);
}

/* What the vCPU did at the pointer: one state, or the sums of those that share its pixels. */
function stateTip(app, { states, k, within }, time) {
	const { trace } = app,
		line = (...words) => el('div', ...words);
	if (states.length(k) <= 2 * within) {
		const t0 = time - within,
			t1 = time + within,
			[from, to] = states.within(t0, t1),
			ran = t1 - t0 - states.outside(t0, t1),
			sums = [...states.sums(t0, t1), ['the rest', Math.max(0, ran)]];
		if (to - from > 1)
			return [
				line(
					el('b', `in ${durationText(t1 - t0)} here`),
					`: ${sums.map(([text, ns]) => `${text} ${durationText(ns)}`).join(', ')}`,
				),
				...culpritLines(trace, states.culprits(from, Math.min(to, from + 4096), t0, t1)),
			];
	}
	const stolen = states.state[k] === STATE.STOLEN;
	const parts = [
		line(el('b', stateText(states, k)), `  ${durationText(states.length(k))}`),
	];
	const quota = quotaText(trace, states, k);
	if (quota) parts.push(line(`held back by ${quota}`));
	if (!stolen) return parts;
	parts.push(line(`ran instead: ${culpritText(trace, states.culprit[k])}`));
	const [from, to] = states.episode(k);
	if (to - from > 1)
		parts.push(
			line(
				`${durationText(states.end[to - 1] - states.start[from])} without interruption:`,
			),
			...culpritLines(trace, states.culprits(from, to)),
		);
	return parts;
}

function culpritLines(trace, sums) {
	const lines = sums
		.slice(0, 4)
		.map(([name, ns]) =>
			el('div', { className: 'event' }, `${durationText(ns)}  ${culpritText(trace, name)}`),
		);
	if (sums.length > 4)
		lines.push(el('div', { className: 'event' }, `… ${sums.length - 4} more`));
	return lines;
}

function tipOf(app, { time, place, span, state, loss, rows: [from, to] }) {
	const { trace } = app,
		parts = [];
	if (state) parts.push(...stateTip(app, state, time));
	if (span) {
		const { track, k } = span,
			length = durationText(track.length(k));
		parts.push(el('div', el('b', trace.spanText(track, k)), `  ${length}`));
		const wait = waitOf(span);
		for (const text of wait ? [waitText(trace, wait), wakeText(trace, wait)] : [])
			if (text) parts.push(el('div', text));
		if (track.lane.kind === LANE.THREAD) parts.push(tipLine(app, trace.rowOf(span)));
	}
	if (loss) parts.push(el('div', { className: 'line lost' }, 'events were lost here'));
	const most = innerHeight < 700 ? TIP_EVENTS_SMALL : TIP_EVENTS;
	for (let k = from; k < Math.min(to, from + most); k++)
		parts.push(tipLine(app, place.lane.shown[k]));
	if (to - from > most) {
		const more = `… ${countText(to - from - most)} more; zoom in or click`;
		parts.push(el('div', { className: 'event' }, more));
	}
	return parts;
}
