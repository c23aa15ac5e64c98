// SPDX-License-Identifier: GPL-2.0-or-later
/* A headless browser with one exported page, and all its errors. */
'use strict';

const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { chromium } = require(path.resolve('build/html-test/node_modules/playwright-core'));

const OPTIONS = {
	executablePath: '/usr/bin/chromium',
	args: [
		'--no-sandbox',
		'--disable-gpu',
		'--disable-quic',
		'--no-first-run',
		'--disable-background-networking',
		'--disable-component-update',
		'--disable-sync',
	],
};

async function launch() {
	return await chromium.launch(OPTIONS);
}

/* @complaints gets a line for each error, dialog, and request except that for the file itself. */
async function open(browser, file, complaints, more = {}) {
	const context = await browser.newContext({
		viewport: { width: 1500, height: 900 },
		...more,
	});
	const page = await context.newPage(),
		url = pathToFileURL(path.resolve(file)).href;
	page.on('console', (message) => complaints.push(`console: ${message.text()}`));
	page.on('pageerror', (error) => complaints.push(`error: ${error.stack}`));
	page.on('dialog', (dialog) => {
		complaints.push(`dialog: ${dialog.message()}`);
		dialog.dismiss();
	});
	page.on('request', (request) => {
		if (request.url().split('#')[0] !== url) complaints.push(`request: ${request.url()}`);
	});
	await page.goto(url);
	await page.waitForFunction(
		() =>
			document.getElementById('loading').hidden ||
			document.getElementById('loadtext').textContent.startsWith('can'),
		null,
		{ timeout: 120000 },
	);
	return page;
}

module.exports = { launch, open };
