// SPDX-License-Identifier: GPL-2.0-or-later
/* The events as report prints them: only the rows that are seen exist. */

const LINE_HEIGHT = 20;
const MOST_PIXELS = 8e6; /* browsers make no higher elements; then one pixel is many rows */

class Table {
	constructor(trace, state, select) {
		this.trace = trace;
		this.state = state;
		this.scroller = $('rows');
		this.lines = $('lines');
		this.rows = null; /* those that are shown, or null: all */
		this.top = 0; /* the first one that is seen, whole or not */
		this.pool = [];
		this.fit = 0; /* lines that there is room for */
		this.colors = []; /* of each group */
		const wide = Math.max(18, trace.timeText(trace.last).length);
		$('tablebox').style.setProperty('--time', `${wide + 4}ch`);
		this.scroller.addEventListener('scroll', () => this.scrolled());
		this.scroller.addEventListener('wheel', (event) => this.wheel(event), {
			passive: false,
		});
		this.lines.addEventListener('click', (event) => {
			const line = event.target.closest('.line');
			if (line) select(Number(line.dataset.row));
		});
	}

	get nr() {
		return this.rows ? this.rows.length : this.trace.nr;
	}

	row(k) {
		return this.rows ? this.rows[k] : k;
	}

	/* The place of a row among those shown, or of the one after it. */
	place(row) {
		return this.rows ? lowerBound(this.rows, row) : row;
	}

	setRows(rows) {
		this.rows = rows;
		this.resize();
	}

	resize() {
		const whole = this.nr * LINE_HEIGHT;
		this.fit = Math.max(1, Math.floor(this.scroller.clientHeight / LINE_HEIGHT));
		$('rowroom').style.height = `${Math.min(whole, MOST_PIXELS)}px`;
		while (this.pool.length < this.fit + 2) this.pool.push(this.makeLine());
		this.goTo(this.top);
	}

	makeLine() {
		const line = document.createElement('div');
		line.className = 'line';
		line.setAttribute('role', 'row');
		line.cells = ['time', 'stream', 'cpu', 'task', 'event', 'text'].map((name) => {
			const cell = document.createElement('span');
			cell.className = `c-${name}`;
			cell.setAttribute('role', 'cell');
			line.append(cell);
			return cell;
		});
		this.lines.append(line);
		return line;
	}

	/* How many pixels of the scroll bar a row is. */
	get perRow() {
		const room = Math.max(
			1,
			Math.min(this.nr * LINE_HEIGHT, MOST_PIXELS) - this.scroller.clientHeight,
		);
		return room / Math.max(1, this.nr - this.scroller.clientHeight / LINE_HEIGHT);
	}

	goTo(top) {
		this.top = Math.max(0, Math.min(top, this.nr - this.fit));
		this.byUs = Math.round(this.top * this.perRow);
		this.scroller.scrollTop = this.byUs;
		this.draw();
	}

	scrolled() {
		if (Math.abs(this.scroller.scrollTop - this.byUs) <= 1) return;
		this.byUs = this.scroller.scrollTop;
		this.top = Math.max(0, Math.min(this.byUs / this.perRow, this.nr - this.fit));
		this.draw();
	}

	wheel(event) {
		if (event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
		event.preventDefault();
		const lines = event.deltaMode === 1 ? event.deltaY : event.deltaY / LINE_HEIGHT;
		this.goTo(this.top + lines);
	}

	reveal(row) {
		const k = this.place(row);
		if (k < this.top + 1 || k > this.top + this.fit - 2)
			this.goTo(k - Math.floor(this.fit / 2));
		else this.draw();
	}

	draw() {
		const first = Math.floor(this.top),
			later = () => this.drawSoon();
		this.lines.style.transform = `translateY(${this.scroller.scrollTop}px)`;
		this.pool.forEach((line, k) => {
			const there = first + k < this.nr && k <= this.fit;
			line.hidden = !there;
			if (there) this.fill(line, this.row(first + k), later);
		});
	}

	drawSoon() {
		if (!this.soon)
			this.soon = requestAnimationFrame(() => {
				this.soon = 0;
				this.draw();
			});
	}

	fill(line, row, later) {
		const { trace, state } = this,
			text = trace.texts.of(row, later);
		const values = [
			(trace.uncertain[row] ? '~ ' : '') + trace.timeText(trace.time[row]),
			trace.groupOf(row).name,
			`[${trace.cpuText(row)}]`,
			trace.taskText(row),
			trace.isEvent(row) ? trace.eventText(row) : '',
			text === null ? '…' : text,
		];
		values.forEach((value, k) => {
			if (line.cells[k].textContent !== value) line.cells[k].textContent = value;
		});
		line.dataset.row = row;
		line.dataset.loaded = text === null ? '' : '1';
		line.cells[1].style.color = this.colors[trace.lanes[trace.lane[row]].group];
		const { selection, near, foundMarks } = state;
		const selected = !!selection && selection.row === row;
		line.className =
			`line${selected ? ' selected' : ''}` +
			`${near && near.has(row) ? ' near' : ''}${foundMarks && foundMarks[row] ? ' found' : ''}` +
			`${trace.isEvent(row) ? '' : trace.kind[row] === LOST ? ' lost' : ' note'}`;
		line.setAttribute('aria-selected', String(selected));
		line.cells[4].title = trace.systemText(row);
		line.cells[0].title = `± ${trace.boundText(row)}${
			trace.uncertain[row] ? '; order uncertain' : ''
		}`;
	}
}
