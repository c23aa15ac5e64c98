// SPDX-License-Identifier: GPL-2.0-or-later
/* What a task did before it ran: preempted or blocked, and who woke it; of one task at a time. */

const WAIT = { WAITED: 0, CALL: 1, WOKEN: 2, WAKER_LANE: 3, WAKER: 4, ALL: 5 };

/* The chunks, as rows of each lane: times, and WAIT.ALL numbers of each. */
function readWaits(trace, chunks) {
	const times = trace.lanes.map(() => []),
		values = trace.lanes.map(() => []);
	let now = trace.statesFrom;
	for (const bytes of chunks) {
		const {
			rows,
			columns: [lane, at, waited, call, woken, wakerLane, waker],
		} = columnsOf(bytes, 7);
		for (let row = 0; row < rows; row++) {
			const l = lane.next();
			now += at.signed();
			times[l].push(now);
			values[l].push(waited.next(), call.next());
			const since = woken.next();
			if (since) values[l].push(since, wakerLane.next(), waker.next());
			else values[l].push(0, 0, 0);
		}
	}
	for (const lane of trace.lanes)
		lane.waits = {
			times: Float64Array.from(times[lane.index]),
			values: Float64Array.from(values[lane.index]),
		};
}

/* Before a task's span: {from, preempted, call, woken, wakerLane, waker, at}, or null. */
function waitOf({ track, k }) {
	const { times, values } = track.lane.waits,
		at = track.start[k],
		row = lowerBound(times, at);
	if (track.row !== ROW.RUN || times[row] !== at) return null;
	const value = (what) => values[row * WAIT.ALL + what],
		waited = value(WAIT.WAITED),
		woken = value(WAIT.WOKEN);
	return {
		at,
		from: waited ? at - (Math.floor(waited / 2) - 1) : null,
		preempted: waited % 2 === 1,
		call: value(WAIT.CALL),
		woken: woken ? at - (woken - 1) : null,
		wakerLane: value(WAIT.WAKER_LANE),
		waker: value(WAIT.WAKER),
	};
}

/* "blocked for 3.2 ms in read" */
function waitText(trace, wait) {
	if (wait.from === null) return '';
	const until = wait.preempted ? wait.at : (wait.woken ?? wait.at),
		call = wait.call ? ` in ${trace.nameText[wait.call]}` : '';
	return `${wait.preempted ? 'preempted' : 'blocked'} for ${durationText(until - wait.from)}${call}`;
}

/* "runnable for 12.3 µs, woken by sh-93 on guest1 vCPU 0" */
function wakeText(trace, wait) {
	if (wait.woken === null) return '';
	const pid = trace.nameNumber[wait.waker],
		who = pid ? `${trace.nameText[wait.waker]}-${pid}` : 'an interrupt of the idle CPU';
	return (
		`runnable for ${durationText(wait.at - wait.woken)}, woken by ${who} ` +
		`on ${trace.laneText(trace.lanes[wait.wakerLane])}`
	);
}

/* Draws both, and the wake-up as an arrow from the waker to the start of the task's span. */
class WaitPainter {
	constructor(view) {
		this.view = view;
	}

	/* The middle of the row of tasks of a lane; null: it is folded. */
	middle(lane) {
		const place = this.view.placeOf(lane),
			row = place && place.rows.find((r) => r.track.row === ROW.RUN);
		return row ? this.view.top(place) + row.y + row.height / 2 : null;
	}

	draw(context, span, palette) {
		const wait = span && waitOf(span),
			{ view } = this;
		if (!wait) return;
		const y = this.middle(span.track.lane),
			x = view.x(wait.at);
		if (y === null) return;
		const bar = (from, to, style) => {
			const a = Math.max(-2, view.x(from)),
				b = Math.min(view.width + 2, view.x(to));
			context.fillStyle = style;
			if (b > a) context.fillRect(a, y - 13, b - a, 3);
		};
		const runnable = wait.preempted ? wait.from : wait.woken;
		if (wait.from !== null && !wait.preempted)
			bar(wait.from, wait.woken ?? wait.at, css(palette.unknown));
		if (runnable !== null) bar(runnable, wait.at, css(palette.stolen));
		if (wait.woken === null) return;
		const from = this.middle(view.trace.lanes[wait.wakerLane]);
		if (from !== null) this.arrow(context, view.x(wait.woken), from, x, y, palette);
	}

	arrow(context, x0, y0, x1, y1, palette) {
		const angle = Math.atan2(y1 - y0, x1 - x0);
		context.strokeStyle = context.fillStyle = css(palette.text);
		context.lineWidth = 1.5;
		context.beginPath();
		context.arc(x0, y0, 3, 0, 2 * Math.PI);
		context.fill();
		context.beginPath();
		context.moveTo(x0, y0);
		context.lineTo(x1, y1);
		context.stroke();
		context.beginPath();
		context.moveTo(x1, y1);
		for (const side of [-0.45, 0.45])
			context.lineTo(x1 - 9 * Math.cos(angle + side), y1 - 9 * Math.sin(angle + side));
		context.fill();
	}
}
