// SPDX-License-Identifier: GPL-2.0-or-later
/* Elements. Data of the trace is inserted into the page as text only, never as markup. */

const RULER_HEIGHT = 24,
	OVERVIEW_HEIGHT = 44;

function $(id) {
	return document.getElementById(id);
}

/* el('dd', 'text'), el('div', { className: 'x' }, child, 'text') */
function el(tag, ...parts) {
	const element = document.createElement(tag);
	for (const part of parts)
		if (part instanceof Node || typeof part !== 'object') element.append(part);
		else Object.assign(element, part);
	return element;
}

/* How wide the names of lanes are: style.css has it, by the window's size. */
function gutter() {
	return parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--gutter'));
}

/* A canvas that gets a size is empty, also if it had that size. */
function sizeCanvas(canvas, width, height, scale) {
	const wide = Math.round(width * scale),
		high = Math.round(height * scale);
	if (canvas.width !== wide) canvas.width = wide;
	if (canvas.height !== high) canvas.height = high;
	canvas.style.width = `${width}px`;
	canvas.style.height = `${height}px`;
}

/* [[name, value], ...] as a list of terms; those without a value are left out. */
function terms(pairs) {
	const list = el('dl');
	for (const [name, value] of pairs)
		if (value !== undefined && value !== '')
			list.append(el('dt', name), el('dd', value));
	return list;
}

function swatch(color) {
	const box = el('span', { className: 'swatch' });
	box.style.background = css(color);
	return box;
}

function countText(nr) {
	return nr.toLocaleString('en').replaceAll(',', '\u202f');
}

/* Lets the browser draw and listen, now and then. */
function breather() {
	let last = performance.now();
	return async () => {
		if (performance.now() - last < 25) return;
		await new Promise((resolve) => setTimeout(resolve));
		last = performance.now();
	};
}
