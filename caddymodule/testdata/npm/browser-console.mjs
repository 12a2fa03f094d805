// An operator with Chromium on every page of the console. The test has signed her in, with two factors.

import assert from 'node:assert/strict'
import { join } from 'node:path'

import { close, visit } from './browser.mjs'
import { check, given, runChecks } from './checks.mjs'
import { look } from './looks.mjs'

const { admin } = given.applications
const focusable = 'a[href], button, input:not([type=hidden]), select, textarea, summary'
const name = (path) => `console${path.replace(/[?].*?do=([a-z_]+).*/, '-$1').replace(/[?].*/, '').replaceAll('/', '-')}`

const asOperator = (run, options = {}) => visit(async (page, context) => {
  await context.addCookies(given.cookies.map((c) => ({ ...c, url: admin })))
  await run(page, context)
}, options)

async function open(page, path) {
  const response = await page.goto(`${admin}/oauth/admin${path}`)
  assert.equal(response.status(), 200, path)
}

// The pages that ask about a change differ in their words alone: after the first round one of them stands for all.
const path = (page) => page.split('?')[0]
const some = given.pages.filter((page, i, all) => all.findIndex((other) => path(other) === path(page)) === i)

for (const [language, locale, colorScheme, pages] of [['en', 'en-GB', 'light', given.pages], ['de', 'de-DE', 'dark', some]]) {
  check(`O80 every page in ${language}, ${colorScheme}: accessible, nothing sideways at 360 px, all by keyboard`, () => asOperator(async (page) => {
    for (const path of pages) {
      await open(page, path)
      await look(page, name(path), language)
      if (pages === some) await tabs(page, path)
    }
  }, { locale, colorScheme }))
}

// tabs wants Tab to reach everything on a page in its order, and to show where it is. The places, which are on every page, are walked through
// on the first.
async function tabs(page, path) {
  // The page notes what the focus comes to, so that it is asked once.
  const all = await page.evaluate(({ focusable, short }) => {
    const list = [...document.querySelectorAll(focusable)].filter((e) => e.checkVisibility({ contentVisibilityAuto: true }))
    globalThis.reached = []
    document.addEventListener('focusin', ({ target }) => {
      const at = list.indexOf(target)
      if (at >= 0) globalThis.reached.push([at, getComputedStyle(target).outlineStyle !== 'none']) // else a region that scrolls
    })
    if (short) {
      const places = list.filter((e) => e.closest('nav.places'))
      list.splice(0, list.indexOf(places.at(-1)) + 1)
      places.at(-1).focus()
    }
    return list.length
  }, { focusable, short: path !== some[0] })
  for (let presses = 0, left = all; left > 0; left = all - await page.evaluate(() => globalThis.reached.length)) {
    for (const before = presses; presses < before + left; presses++) await page.keyboard.press('Tab')
    assert.ok(presses < 400, `${path}: Tab reaches ${all - left} of ${all}`)
  }
  const reached = await page.evaluate(() => globalThis.reached)
  assert.deepEqual(reached.map(([at]) => at), [...Array(all).keys()], `${path}: the order`)
  assert.deepEqual(reached.filter(([, outlined]) => !outlined), [], `${path}: nothing shows the focus`)
}

// Days are what operators come for, with at most so many clicks. A field that is filled in and a choice are none.
const days = {
  'a whole day': [27, async (page, click) => {
    await click(page.getByRole('link', { name: 'People', exact: true }))
    await click(page.getByRole('link', { name: 'Invite a person' }))
    await page.getByLabel('E-mail address').fill('heidi@acme.example')
    await page.getByLabel('Role').selectOption('member')
    await click(page.getByRole('button', { name: 'Invite' }))
    assert.match(await page.getByLabel('Link').inputValue(), /^http/)

    await click(page.getByRole('link', { name: 'Applications' }))
    await click(page.getByRole('link', { name: 'New application' }))
    await click(page.getByRole('region', { name: 'Service', exact: true }).getByRole('link', { name: 'Choose' }))
    await page.getByLabel('Name', { exact: true }).fill('Nightly')
    await click(page.getByRole('button', { name: 'Add' }))
    const secret = await page.getByLabel('Secret', { exact: true }).inputValue()
    assert.ok(secret.length > 20)

    // She was refused at the wiki, whose gate requires a group.
    await click(page.getByRole('link', { name: 'People', exact: true }))
    await click(page.locator('a[href*="id=u-ada"]'))
    await click(page.getByRole('link', { name: 'Refusals' }))
    await click(page.locator('a[href*="/gate/why"]').first())
    await page.getByText('group writers').first().waitFor()
    await click(page.getByRole('link', { name: 'Edit' }))
    await page.getByLabel('Groups').fill('engineering\nwriters')
    await click(page.getByRole('button', { name: 'Save' }))
    await page.getByText('writers').first().waitFor()

    await click(page.getByRole('link', { name: 'Applications' }))
    await click(page.getByRole('link', { name: 'House', exact: true }))
    await click(page.getByRole('link', { name: 'New secret' }))
    await page.getByLabel('How long the old secret stays good').selectOption('24h')
    await click(page.getByRole('button', { name: 'New secret' }))
    assert.ok((await page.getByLabel('Secret', { exact: true }).inputValue()).length > 20)

    await click(page.getByRole('link', { name: 'Sessions' }))
    await page.getByLabel('Person: id or e-mail address').fill('ben@other.example')
    await click(page.getByRole('button', { name: 'Search' }))
    await click(page.getByRole('link', { name: 'End', exact: true }).first())
    await click(page.getByRole('button', { name: 'End', exact: true }))
    await page.getByText('The change was made.').waitFor()

    await click(page.getByRole('link', { name: 'Audit log' }))
    for (const event of ['user invited', 'client added', 'user updated', 'client secret rotated', 'sessions ended']) {
      await page.getByLabel('Event, as it is written in the list').fill(event)
      await click(page.getByRole('button', { name: 'Search' }))
      let found = false
      for (let tries = 0; !found && tries < 50; tries++) { // they are written behind the requests
        if (tries > 0) await page.reload()
        found = (await page.locator('main').innerText()).includes(event)
      }
      assert.ok(found, event)
    }
  }],
  'let her in': [3, async (page, click) => {
    await click(page.getByRole('link', { name: 'People', exact: true }))
    await click(page.getByRole('link', { name: 'Invite a person' }))
    await page.getByLabel('E-mail address').fill('grace@acme.example')
    await page.getByLabel('Role').selectOption('member')
    await page.getByLabel('Organisation').selectOption('acme')
    await click(page.getByRole('button', { name: 'Invite' }))
    assert.match(await page.getByLabel('Link').inputValue(), /^http/)
  }],
  'throw him out everywhere now': [5, async (page, click) => {
    await click(page.getByRole('link', { name: 'People', exact: true }))
    await page.getByLabel('Name or address begins with').fill('ben')
    await click(page.getByRole('button', { name: 'Search' }))
    await click(page.getByRole('link', { name: 'Ben', exact: true }))
    await click(page.getByRole('link', { name: 'Sign out everywhere' }))
    await click(page.getByRole('button', { name: 'Sign out everywhere' }))
    await page.getByText('The change was made.').waitFor()
    await page.getByText('There is no session.').or(page.getByText('is signed in')).first().waitFor()
  }],
  'she has another name now': [5, async (page, click) => {
    await click(page.getByRole('link', { name: 'People', exact: true }))
    await click(page.getByRole('link', { name: 'Ada', exact: true }))
    await click(page.getByRole('link', { name: 'Edit' }))
    await page.getByLabel('Name', { exact: true }).fill('Ada King')
    await click(page.getByRole('button', { name: 'Save' }))
    await page.getByText('The change was made.').waitFor()
    await page.getByRole('heading', { name: /Ada King/ }).waitFor()
  }],
}
for (const [what, [most, run]] of Object.entries(days)) {
  check(`O81 without script: ${what}`, () => asOperator(async (page) => {
    let clicks = 0
    await open(page, '')
    await run(page, async (locator) => {
      clicks++
      await Promise.all([page.waitForEvent('load'), locator.click()])
    })
    assert.ok(clicks <= most, `${clicks} clicks`)
  }, { javaScriptEnabled: false }))
}

if (given.pictures) {
  check('pictures for the README', () => asOperator(async (page) => {
    for (const [file, path] of [['console', ''], ['console-person', '/people/person?id=u-ada']]) {
      await open(page, path)
      const picture = await page.screenshot({ path: join(given.screenshots, 'readme', `${file}.png`) })
      assert.ok(picture.length < 100_000, `${file} has ${picture.length} bytes`)
    }
  }, { viewport: { width: 1100, height: 760 } }))
}

await runChecks(close)
