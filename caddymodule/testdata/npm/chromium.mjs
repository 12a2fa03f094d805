// Chromium, as every script starts it.

import { chromium } from 'playwright-core'

import { given } from './checks.mjs'

// All sites share one renderer process: a new one for each change of site costs as much processor time as the page itself. The same-origin
// policy holds all the same.
export const launch = (flags = []) => chromium.launch({
  executablePath: given.chromium,
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--disable-site-isolation-trials', '--renderer-process-limit=1', ...flags,
  ],
})
