// What people see of a page, wide and narrow: nothing has to be scrolled sideways, and axe-core finds nothing.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

import { given } from './checks.mjs'

// axe is axe-core for a page. It is the minified one, because each page compiles it anew.
export const axe = readFileSync(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

const sizes = [{ width: 1280, height: 800 }, { width: 360, height: 800 }]

// look holds the page that is there, and leaves pictures of it where somebody wants them. It begins with the size at which the page before
// was looked at last.
export async function look(page, state, language, { accessible = true } = {}) {
  assert.equal(await page.locator('html').getAttribute('lang'), language, state)
  assert.ok((await page.locator('h1').textContent()).length > 2, state)
  if (accessible) {
    await page.evaluate(axe)
    const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ['violations'] }))
    assert.deepEqual(violations.map(({ id }) => id), [], state)
  }
  const narrow = page.viewportSize().width === sizes[1].width
  for (const size of narrow ? sizes.toReversed() : sizes) {
    await page.setViewportSize(size)
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), `${state} at ${size.width}`)
    if (given.pictures) await page.screenshot({ path: join(given.screenshots, `${state}-${language}-${size.width}.png`), fullPage: true })
  }
}
