// SPDX-License-Identifier: GPL-2.0-or-later
/* The trace in columns, its lanes, and the levels that make any zoom cheap. */

/* As in html/names.h, html/lanes.h and html/spans.h. */
const NAME = {
	OTHER: 0,
	SYSTEM: 1,
	EVENT: 2,
	TASK: 3,
	IRQ: 4,
	SYSCALL: 5,
	GUEST: 6,
	EXIT: 7,
	ON_CPU: 8,
	WAITING: 9,
	LOSS: 10,
	CULPRIT: 11,
};
const LOST = 0,
	NOTE = 1;
const ALL_VCPUS = 0xfffffffe; /* the number of a thread that runs all in turn */
const LANE = { GROUP: 0, CPU: 1, THREAD: 2 };
const YEAR_9999 = 253402300799; /* its last second, since 1970 */
const ROW = { RUN: 0, SYSCALL: 1, IRQ: 2, KVM: 6, LOST: 7, ALL: 8 };

function vcpuText(number) {
	return number === ALL_VCPUS ? 'all vCPUs' : `vCPU ${number}`;
}

/* The first index in [from, to) whose value is at least (or above) what is asked for. */
function lowerBound(values, value, from = 0, to = values.length) {
	while (from < to) {
		const middle = (from + to) >>> 1;
		if (values[middle] < value) from = middle + 1;
		else to = middle;
	}
	return from;
}

function upperBound(values, value, from = 0, to = values.length) {
	while (from < to) {
		const middle = (from + to) >>> 1;
		if (values[middle] <= value) from = middle + 1;
		else to = middle;
	}
	return from;
}

/*
 * Spans of one row of a lane, one after the other. busy[k] is the time of all before k;
 * levels[l][k] is the longest of the spans [k << 4(l+1), (k+1) << 4(l+1)): so for any
 * stretch of time, however many spans are in it, its occupation and its chief are found
 * in some dozen steps.
 */
class Track {
	constructor(lane, row, capacity) {
		this.lane = lane;
		this.row = row;
		this.nr = 0;
		this.start = new Float64Array(capacity);
		this.end = new Float64Array(capacity);
		this.name = new Uint32Array(capacity);
	}

	add(start, end, name) {
		const before = this.nr ? this.end[this.nr - 1] : -Infinity;
		this.start[this.nr] = Math.max(start, before);
		this.end[this.nr] = Math.max(end, this.start[this.nr]);
		this.name[this.nr++] = name;
	}

	finish() {
		const { nr, start, end } = this;
		this.busy = new Float64Array(nr + 1);
		for (let k = 0; k < nr; k++) this.busy[k + 1] = this.busy[k] + end[k] - start[k];
		this.levels = [];
		for (let below = null, length = nr; length > 1; length = below.length) {
			const level = new Uint32Array(Math.ceil(length / 16));
			for (let k = 0; k < length; k++) {
				const one = below ? below[k] : k,
					slot = k >> 4;
				if (k % 16 === 0 || this.length(one) > this.length(level[slot]))
					level[slot] = one;
			}
			this.levels.push(level);
			below = level;
		}
	}

	length(k) {
		return this.end[k] - this.start[k];
	}

	/* The longest span of [from, to), which is not empty. */
	longest(from, to) {
		let best = from;
		const look = (one) => {
			if (this.length(one) > this.length(best)) best = one;
		};
		for (let l = -1; from < to; l++) {
			const level = l < 0 ? null : this.levels[l],
				last = l + 1 >= this.levels.length;
			while (from < to && (last || from % 16))
				look(level ? level[from++] : from++);
			while (from < to && to % 16) look(level ? level[--to] : --to);
			from >>= 4;
			to >>= 4;
		}
		return best;
	}

	/* How much of [t0, t1) the spans [from, to), those that touch it, occupy. */
	occupied(from, to, t0, t1) {
		return (
			this.busy[to] -
			this.busy[from] -
			Math.max(0, t0 - this.start[from]) -
			Math.max(0, this.end[to - 1] - t1)
		);
	}

	/* The span at a time, or the nearest within some time of it; -1: none. */
	at(time, within) {
		const k = upperBound(this.start, time, 0, this.nr) - 1;
		let best = -1,
			distance = within;
		for (const one of [k, k + 1]) {
			if (one < 0 || one >= this.nr) continue;
			const d = Math.max(this.start[one] - time, time - this.end[one], 0);
			if (d < distance || (d === 0 && best < 0)) {
				best = one;
				distance = d;
			}
		}
		return best;
	}
}

class Trace {
	constructor(chunks) {
		this.readMeta(UTF8.decode(chunks.meta[0]));
		this.profile = chunks.flame.length ? new Profile(chunks.flame[0]) : null;
		this.verdict = chunks.verdict.length
			? JSON.parse(UTF8.decode(chunks.verdict[0]))
			: null;
		this.readNames(chunks.names);
		this.readRows(chunks.rows);
		this.texts = new Texts(chunks.texts, this.firsts);
		this.readSpans(chunks.spans);
		readStates(this, chunks.states);
		readWaits(this, chunks.waits);
		this.placeRows();
		this.findRange();
	}

	readMeta(text) {
		const [own, head, ...rest] = text
			.trimEnd()
			.split('\n')
			.map((line) => JSON.parse(line));
		this.base = BigInt(own.base_ns);
		this.statesFrom = own.states_ns;
		this.nr = own.rows;
		this.head = head;
		this.totals = rest.pop();
		/* Lines of several hosts are between the head and the streams. */
		const streams = rest.filter(({ type }) => type !== 'host');
		this.streams = streams;
		/* vCPUs mostly have theirs in common. */
		this.windows = own.windows.sort((a, b) => a[0] - b[0]);
		this.stops = own.stops && this.windows.length > 0;
		this.epochs = [
			...new Map(own.epochs.map((epoch) => [String(epoch), epoch])).values(),
		].map(([group, from, begun]) => ({ group, from, begun }));
		this.lanes = own.lanes.map(([kind, group, number, tid], index) => ({
			index,
			kind,
			group,
			number,
			tid,
			tracks: new Array(ROW.ALL).fill(null),
		}));
		this.groups = [];
		own.group_of.forEach((group, k) => {
			this.groups[group] = this.groups[group] || {
				name: streams[k].stream,
				kind: streams[k].kind,
				streams: [],
				notes: [],
			};
			if (streams[k].kind === 'guest') this.groups[group].kind = 'guest';
			this.groups[group].streams.push(streams[k]);
		});
		/* Threads of hosts that are vCPUs; of one host alone, no stream names it. */
		this.vcpuOf = new Map();
		for (const { name, streams: all } of this.groups)
			for (const { vcpus = [], host } of all)
				for (const { vcpu, tid } of vcpus)
					this.vcpuOf.set(`${host}/${tid}`, `${name}/${vcpuText(vcpu ?? ALL_VCPUS)}`);
		for (const group of this.groups) group.lanes = [];
		for (const lane of this.lanes)
			if (lane.kind === LANE.GROUP) this.groups[lane.group].lane = lane;
			else this.groups[lane.group].lanes.push(lane);
		/* Each vCPU's thread, then the CPU that it is to its guest. A host's CPUs first. */
		for (const group of this.groups)
			group.lanes.sort((a, b) =>
				group.kind === 'host'
					? a.kind - b.kind || a.number - b.number || a.tid - b.tid
					: a.number - b.number || b.kind - a.kind,
			);
	}

	readNames(chunks) {
		this.nameType = [];
		this.nameGroup = [];
		this.nameNumber = [];
		this.nameText = [];
		for (const bytes of chunks)
			for (const n = new Numbers(bytes); n.more(); ) {
				this.nameType.push(n.next());
				this.nameGroup.push(n.next());
				this.nameNumber.push(n.signed());
				this.nameText.push(n.text(n.next()));
			}
	}

	readRows(chunks) {
		const nr = this.nr,
			lastBound = new Float64Array(this.lanes.length);
		let row = 0,
			now = 0;
		this.time = new Float64Array(nr);
		this.lane = new Uint32Array(nr);
		this.kind = new Uint32Array(nr);
		this.uncertain = new Uint8Array(nr);
		this.task = new Uint32Array(nr); /* + 1; 0: none */
		this.bound = new Float64Array(nr); /* + 1; 0: not known */
		this.firsts = [];
		for (const bytes of chunks) {
			const {
				rows,
				columns: [time, lane, kind, task, bound],
			} = columnsOf(bytes, 5);
			this.firsts.push(row);
			for (const end = row + rows; row < end; row++) {
				const l = lane.next(),
					k = kind.next();
				this.time[row] = now += time.signed();
				this.lane[row] = l;
				this.kind[row] = k >>> 1;
				this.uncertain[row] = k & 1;
				this.task[row] = task.next();
				this.bound[row] = lastBound[l] += bound.signed();
			}
		}
		this.firsts.push(row);
	}

	readSpans(chunks) {
		const parts = chunks.map((bytes) => columnsOf(bytes, 4));
		const counts = new Uint32Array(this.lanes.length * ROW.ALL);
		for (const {
			rows,
			columns: [track],
		} of parts) {
			const at = track.at;
			for (let k = 0; k < rows; k++) counts[track.next()]++;
			track.at = at;
		}
		const tracks = [...counts].map((nr, k) =>
			nr
				? (this.lanes[k >> 3].tracks[k & 7] = new Track(
						this.lanes[k >> 3],
						k & 7,
						nr,
					))
				: null,
		);
		let now = 0;
		for (const {
			rows,
			columns: [track, end, length, name],
		} of parts)
			for (let k = 0; k < rows; k++) {
				now += end.signed();
				tracks[track.next()].add(now - length.next(), now, name.next());
			}
		for (const track of tracks) if (track) track.finish();
	}

	/* Each lane's rows; a group's are its notes. */
	placeRows() {
		const rows = this.byLane(this.nr, (k) => k);
		for (const lane of this.lanes) {
			lane.rows = rows[lane.index];
			lane.shown = lane.rows;
			lane.times = Float64Array.from(lane.rows, (row) => this.time[row]);
			lane.shownTimes = lane.times;
			lane.found = null;
		}
	}

	/* Rows, @nr of them, as one sorted list for each lane. */
	byLane(nr, rowOf) {
		const counts = new Uint32Array(this.lanes.length);
		for (let k = 0; k < nr; k++) counts[this.lane[rowOf(k)]]++;
		const lists = Array.from(counts, (count) => new Uint32Array(count));
		counts.fill(0);
		for (let k = 0; k < nr; k++) {
			const row = rowOf(k),
				lane = this.lane[row];
			lists[lane][counts[lane]++] = row;
		}
		return lists;
	}

	findRange() {
		this.first = this.nr ? this.time[0] : 0;
		this.last = this.nr ? this.time[this.nr - 1] : 1;
		for (let k = 0; k < this.nr; k++) {
			/* wall time may have been set back */
			this.first = Math.min(this.first, this.time[k]);
			this.last = Math.max(this.last, this.time[k]);
		}
		this.lasts = this.nr ? this.last - this.first : 0;
		if (this.last <= this.first) this.last = this.first + 1000;
		this.lastStop = this.stops
			? Math.max(...this.windows.map((window) => window[1]), -Infinity)
			: Infinity;
		this.recordingEnds = [];
		for (const [start, stop] of this.stops ? this.windows : []) {
			const ends = this.recordingEnds,
				overlaps = ends.length && start <= ends[ends.length - 1];
			if (!overlaps) ends.push(stop);
			else ends.push(Math.max(ends.pop(), stop));
		}
		/* The recorded time, as far as rows cover it: the first view. */
		const starts = this.windows.map((window) => window[0]),
			stops = this.windows.map((window) => window[1]);
		this.shownFirst = Math.max(this.first, Math.min(...starts, Infinity));
		this.shownLast = Math.min(this.last, Math.max(...stops, -Infinity));
		if (!(this.shownLast > this.shownFirst))
			[this.shownFirst, this.shownLast] = [this.first, this.last];
	}

	/* The first end of a recording at or after that time; nothing is known from there to the next one. */
	recordedUntil(time) {
		const k = lowerBound(this.recordingEnds, time);
		return k < this.recordingEnds.length ? this.recordingEnds[k] : Infinity;
	}

	/* As report has it: "45931.317813634", of wall time "2026-11-27T02:08:10.173318456Z". */
	timeText(time) {
		const text = this.secondsText(time);
		const seconds = Number(text.slice(0, -10));
		if (!this.isWall || text[0] === '-' || seconds > YEAR_9999) return text;
		return `${new Date(seconds * 1000).toISOString().slice(0, 19)}${text.slice(-10)}Z`;
	}

	secondsText(time) {
		const ns = this.base + BigInt(Math.round(time)),
			sign = ns < 0n ? '-' : '';
		const digits = String(ns < 0n ? -ns : ns).padStart(10, '0');
		return `${sign}${digits.slice(0, -9)}.${digits.slice(-9)}`;
	}

	/* Whether times are those of a calendar. */
	get isWall() {
		return this.head.clock === 'realtime';
	}

	/* A time in a sentence. */
	clockText(time) {
		return this.isWall ? this.timeText(time) : `${this.timeText(time)} s`;
	}

	/* The event that a span of a thread began with: it lies in the lane of some CPU. */
	rowOf({ track, k }) {
		const { lane } = track,
			at = lowerBound(this.time, track.start[k]);
		for (let row = at; row < this.nr && this.time[row] === track.start[k]; row++) {
			const task = this.task[row];
			if (task && this.nameNumber[task - 1] === lane.tid) return row;
		}
		return Math.min(at, this.nr - 1);
	}

	groupOf(row) {
		return this.groups[this.lanes[this.lane[row]].group];
	}

	/* "guest1 vCPU 0" */
	laneText(lane) {
		const group = this.groups[lane.group];
		if (lane.kind === LANE.GROUP) return group.name;
		if (lane.kind === LANE.THREAD)
			return `${group.name} ${vcpuText(lane.number)}, thread ${lane.tid}`;
		return `${group.name} ${group.kind === 'host' ? 'CPU' : 'vCPU'} ${lane.number}`;
	}

	/* "bash-1234", or nothing; "CPU 0/KVM-1234 [guest1/vCPU 0]" of the host's thread that is one */
	taskText(row) {
		const task = this.task[row];
		if (!task) return '';
		const pid = this.nameNumber[task - 1],
			group = this.groupOf(row),
			vcpu = group.kind === 'host' && this.vcpuOf.get(`${group.streams[0].host}/${pid}`);
		return `${this.nameText[task - 1]}-${pid}${vcpu ? ` [${vcpu}]` : ''}`;
	}

	/* "001", or "---" of a note */
	cpuText(row) {
		const lane = this.lanes[this.lane[row]];
		return lane.kind === LANE.GROUP ? '---' : String(lane.number).padStart(3, '0');
	}

	isEvent(row) {
		return this.nameType[this.kind[row]] === NAME.EVENT;
	}

	eventText(row) {
		return this.nameText[this.kind[row]];
	}

	systemText(row) {
		return this.isEvent(row) ? this.nameText[this.nameNumber[this.kind[row]]] : '';
	}

	boundText(row) {
		return this.bound[row] ? durationText(this.bound[row] - 1) : 'unknown';
	}

	/* What a span is called. */
	spanText(track, k) {
		const name = track.name[k],
			text = this.nameText[name];
		return this.nameType[name] === NAME.TASK
			? `${text}-${this.nameNumber[name]}`
			: text;
	}
}

/* "1.234 ms", "12.30 ms": four digits, as analyses print them. */
function durationText(ns) {
	const units = [
		[1e9, 's'],
		[1e6, 'ms'],
		[1e3, 'µs'],
	];
	const [unit, name] = units.find(([least]) => Math.abs(ns) >= least) || [1, 'ns'];
	const value = Math.abs(ns) / unit,
		digits = unit === 1 ? 0 : value < 9.9995 ? 3 : value < 99.995 ? 2 : 1;
	return `${(ns / unit).toFixed(digits)} ${name}`;
}
