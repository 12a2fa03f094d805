// Chromium, as every script starts it.

import { chromium } from 'playwright-core'

import { given } from './checks.mjs'

// All sites share a process, because a new one for each page of another site takes as much processor time as the page. What one page may
// know of another is the same.
export const launch = (flags = []) => chromium.launch({
  executablePath: given.chromium,
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--disable-site-isolation-trials', '--renderer-process-limit=1', ...flags,
  ],
})
