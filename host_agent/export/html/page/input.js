// SPDX-License-Identifier: GPL-2.0-or-later
/* Pointer, wheel, keys, buttons. */

class Pointer {
	constructor(app) {
		this.app = app;
		this.touches = new Map(); /* pointer: where it is */
		const over = $('over');
		over.addEventListener('pointermove', (event) => this.moved(event));
		over.addEventListener('pointerdown', (event) => this.down(event));
		over.addEventListener('pointerup', (event) => this.up(event));
		over.addEventListener('pointercancel', (event) => {
			this.touches.delete(event.pointerId);
			this.drag = null;
		});
		over.addEventListener('pointerleave', () => this.left());
		over.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
		over.addEventListener('dblclick', () => {
			const { selection } = app.state;
			if (selection && selection.span) app.fill();
		});
		this.dragAlong($('ruler'), (x, from) =>
			app.setRange(app.view.time(from), app.view.time(x)),
		);
		this.dragAlong($('overview'), (x) => {
			const time = app.overview.time(x),
				half = app.win.length / 2;
			app.win.set(time - half, time + half);
		});
		this.dragAlong($('bar'), (x, from, event) =>
			this.setTable(innerHeight - event.clientY - $('status').offsetHeight),
		);
	}

	setTable(height) {
		$('bottom').style.height = `${Math.min(Math.max(height, 60), innerHeight - 220)}px`;
	}

	/* @act(x, where it began) for as long as the button is down. */
	dragAlong(element, act) {
		let from = null;
		element.addEventListener('pointerdown', (event) => {
			from = event.offsetX;
			element.setPointerCapture(event.pointerId);
			act(from, from, event);
		});
		element.addEventListener(
			'pointermove',
			(event) => from !== null && act(event.offsetX, from, event),
		);
		element.addEventListener('pointerup', () => (from = null));
	}

	/* Two fingers: their distance zooms, their middle moves. */
	pinch(event) {
		const { win, view } = this.app,
			before = [...this.touches.values()];
		this.touches.set(event.pointerId, event.offsetX);
		const after = [...this.touches.values()],
			middle = (before[0] + before[1]) / 2,
			factor =
				Math.max(10, Math.abs(before[0] - before[1])) /
				Math.max(10, Math.abs(after[0] - after[1]));
		win.zoom(factor, view.time(middle));
		win.pan((middle - (after[0] + after[1]) / 2) / view.width);
		if (this.drag) this.drag.far = true;
	}

	moved(event) {
		const { app, drag } = this;
		if (this.touches.size === 2 && this.touches.has(event.pointerId)) {
			this.pinch(event);
			return;
		}
		if (
			drag &&
			!drag.far &&
			Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) > 3
		)
			drag.far = true;
		if (drag && drag.far && drag.range)
			app.setRange(drag.time, app.view.time(event.offsetX));
		else if (drag && drag.far) this.pull(event);
		this.hover(event);
	}

	/* What is under the pointer now, for the tip. */
	hover(event) {
		const { app, drag } = this;
		app.state.hover = Object.assign(app.view.at(event.offsetX, event.offsetY), {
			left: event.clientX,
			quiet: !!(drag && drag.far),
		});
		app.win.aim = app.state.hover.time;
		app.drawOver();
	}

	pull(event) {
		const { win, view } = this.app,
			{ drag } = this;
		const by = ((drag.x - event.offsetX) / view.width) * win.length;
		$('over').classList.add('dragged');
		win.set(drag.t0 + by, drag.t1 + by);
		view.scroller.scrollTop = drag.top + drag.clientY - event.clientY;
	}

	down(event) {
		const { win, view } = this.app;
		if (event.button) return;
		$('over').setPointerCapture(event.pointerId);
		if (event.pointerType === 'touch') this.touches.set(event.pointerId, event.offsetX);
		this.drag = {
			x: event.offsetX,
			y: event.offsetY,
			clientY: event.clientY,
			t0: win.t0,
			t1: win.t1,
			top: view.scroller.scrollTop,
			time: view.time(event.offsetX),
			range: event.shiftKey,
		};
	}

	up(event) {
		const { app, drag } = this,
			several = this.touches.size > 1;
		this.touches.delete(event.pointerId);
		this.drag = null;
		$('over').classList.remove('dragged');
		if (!drag || drag.far || several) return;
		const { row, span, place, loss, state } = app.view.at(event.offsetX, event.offsetY);
		app.state.range = null;
		if (state) app.selectState(state, row, span);
		else if (loss && !span) app.select({ row: this.lossRow(loss), span: null });
		else if (row >= 0) app.select({ row, span });
		else if (span) app.select({ row: app.trace.rowOf(span), span });
		else if (place) app.select(null);
	}

	/* The line that reports a loss; it is printed where the loss ends. */
	lossRow({ track, k }) {
		const { lane } = track,
			at = lowerBound(lane.times, track.end[k]);
		for (let j = at; j < lane.rows.length && lane.times[j] === track.end[k]; j++)
			if (this.app.trace.kind[lane.rows[j]] === LOST) return lane.rows[j];
		return lane.rows[Math.min(at, lane.rows.length - 1)];
	}

	left() {
		if (this.drag) return;
		this.app.state.hover = null;
		this.app.win.aim = undefined;
		this.app.drawOver();
	}

	wheel(event) {
		const { win, view } = this.app,
			unit = event.deltaMode === 1 ? 30 : 1;
		event.preventDefault();
		if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
			win.pan(((event.deltaX || event.deltaY) * unit) / view.width);
		else
			win.zoom(
				Math.exp(
					Math.max(-200, Math.min(200, event.deltaY * unit)) * 0.0025,
				),
				view.time(event.offsetX),
			);
		this.hover(event);
	}
}

class Controls {
	constructor(app) {
		this.app = app;
		for (const [button, section] of [
			['verdictbutton', 'verdict'],
			['headbutton', 'head'],
			['kindsbutton', 'kinds'],
			['longestbutton', 'longest'],
			['profilebutton', 'profile'],
		])
			$(button).addEventListener('click', () => this.toggle(button, section));
		$('longestbutton').addEventListener('click', () => app.longest.fill(), { once: true });
		$('profilebutton').addEventListener('click', () => app.flame.draw());
		for (const name of ['help', 'legend'])
			$(`${name}button`).addEventListener('click', () => $(name).showModal());
		$('next').addEventListener('click', () => app.step(1));
		$('previous').addEventListener('click', () => app.step(-1));
		this.field(
			'search',
			(text) => app.search(text),
			(event) => app.step(event.shiftKey ? -1 : 1),
		);
		this.field(
			'filter',
			(text) => app.filter(text),
			() => $('lanes').focus(),
		);
		addEventListener('keydown', (event) => this.down(event));
		addEventListener('keyup', (event) => app.win.release(event.code));
		addEventListener('blur', () => app.win.release());
		$('bar').addEventListener('keydown', (event) => {
			const by = { ArrowUp: 20, ArrowDown: -20 }[event.key];
			if (by) {
				event.stopPropagation();
				$('bottom').style.height =
					`${Math.max(60, $('bottom').offsetHeight + by)}px`;
			}
		});
	}

	toggle(button, section) {
		$(section).hidden = !$(section).hidden;
		$(button).setAttribute('aria-expanded', String(!$(section).hidden));
	}

	/* Acts a moment after the last letter, or at once on Enter; a second Enter goes on. */
	field(name, run, again) {
		const input = $(name);
		let timer = 0,
			ran = '';
		const now = () => {
			clearTimeout(timer);
			ran = input.value;
			return run(ran);
		};
		input.addEventListener('input', () => {
			clearTimeout(timer);
			timer = setTimeout(now, 250);
		});
		$(`${name}form`).addEventListener('submit', (event) => event.preventDefault());
		input.addEventListener('keydown', (event) => {
			event.stopPropagation();
			if (event.key === 'Escape') {
				input.value = '';
				now();
				$('lanes').focus();
			} else if (event.key === 'Enter') {
				if (input.value === ran) again(event);
				else now();
			}
		});
	}

	escape() {
		const { app } = this;
		if (!$('profile').hidden) return this.toggle('profilebutton', 'profile');
		if (!$('longest').hidden) return this.toggle('longestbutton', 'longest');
		if (!$('kinds').hidden) return this.toggle('kindsbutton', 'kinds');
		app.state.range = null;
		return app.select(null);
	}

	down(event) {
		const { app } = this,
			held = { KeyW: [2.2, 0], KeyS: [-2.2, 0], KeyA: [0, -0.9], KeyD: [0, 0.9] }[
				event.code
			];
		if (
			event.ctrlKey ||
			event.altKey ||
			event.metaKey ||
			document.querySelector('dialog[open]') ||
			event.target.closest('input[type="search"]')
		)
			return;
		const acts = {
			'/': () => $('search').select(),
			'\\': () => $('filter').select(),
			'?': () => $('help').showModal(),
			'0': () => app.win.all(),
			'f': () => app.fill(),
			'm': () => app.mark(),
			'M': () => app.clearMarks(),
			'n': () => app.step(1),
			'N': () => app.step(-1),
			'e': () => app.longest.step('stolen', 1),
			'E': () => app.longest.step('stolen', -1),
			'g': () => app.longest.step('gaps', 1),
			'G': () => app.longest.step('gaps', -1),
			'[': () => app.stepSpan(-1),
			']': () => app.stepSpan(1),
			'+': () => app.win.zoom(0.7, app.win.aim),
			'=': () => app.win.zoom(0.7, app.win.aim),
			'-': () => app.win.zoom(1.4, app.win.aim),
			'Escape': () => this.escape(),
			'ArrowLeft': () => app.stepInLane(-1),
			'ArrowRight': () => app.stepInLane(1),
			'ArrowUp': () => app.stepInTable(-1),
			'ArrowDown': () => app.stepInTable(1),
			'PageUp': () => app.table.goTo(app.table.top - app.table.fit),
			'PageDown': () => app.table.goTo(app.table.top + app.table.fit),
			'Home': () => app.table.goTo(0),
			'End': () => app.table.goTo(app.table.nr),
		};
		/* What was under the pointer moves away; what comes there instead is not meant. */
		if (acts[event.key]) app.state.hover = null;
		if (held && !event.shiftKey) app.win.hold(event.code, ...held);
		else if (acts[event.key]) acts[event.key]();
		else return;
		event.preventDefault();
	}
}
