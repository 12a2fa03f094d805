// Pages with an operator's logo, colours, links, notes and languages, one of them written from right to left: axe-core finds nothing, no
// page scrolls sideways, and an SVG with a script and a form stays a picture.

import assert from 'node:assert/strict'

import { ask, close, press, visit } from './browser.mjs'
import { check, given, runChecks } from './checks.mjs'
import { look } from './looks.mjs'

const { issuer, ada } = given
const { conf, portal } = given.clients

async function signIn(page, password) {
  await page.fill('#email', ada.email)
  await page.fill('#password', password)
  await press(page, 'button.primary')
}

const states = {
  'own-sign-in': (page) => page.goto(ask(portal).url),
  'own-wrong-password': (page) => signIn(page, 'not the password'),
  'own-consent': async (page) => {
    await signIn(page, ada.password)
    await page.waitForSelector('body.consent')
  },
  'own-account': async (page) => {
    await page.goto(ask(conf, { prompt: 'consent' }).url)
    await page.click('button[value=allow]')
    await page.waitForURL((url) => !url.href.startsWith(issuer))
    await page.goto(`${issuer}/oauth/account`)
  },
  'own-sign-out': (page) => page.goto(`${issuer}/oauth/logout`),
  'own-problem': (page) => page.goto(`${issuer}/oauth/authorize?client_id=none`),
}

// Colours and direction are looked at by axe-core, of which French and Spanish have none of their own.
for (const [language, locale, colorScheme] of [['en', 'en-GB', 'light'], ['de', 'de-DE', 'dark'], ['he', 'he-IL', 'light'], ['fr', 'fr-CA', 'light'], ['es', 'es-MX', 'dark']]) {
  check(`U18 ${language}, ${colorScheme}`, () => visit(async (page) => {
    for (const [state, go] of Object.entries(states)) {
      await go(page)
      await look(page, state, language, { accessible: !['fr', 'es'].includes(language) })
      const seen = await page.evaluate(() => ({
        dir: getComputedStyle(document.body).direction, title: document.title, hacked: globalThis.hacked,
        logo: document.querySelector('header img').naturalWidth, fields: document.querySelectorAll('[name=stolen]').length,
        links: [...document.querySelectorAll('footer a')].map((a) => a.href),
      }))
      assert.equal(seen.dir, language === 'he' ? 'rtl' : 'ltr', state)
      assert.ok(seen.title.endsWith('– Acme'), seen.title)
      assert.deepEqual([seen.hacked, seen.fields], [undefined, 0], state)
      assert.ok(seen.logo > 0, `${state}: the logo is not shown`)
      assert.deepEqual(seen.links, ['https://help.example/', 'https://acme.example/privacy', 'mailto:legal@acme.example'], state)
    }
  }, { locale, colorScheme, reducedMotion: 'reduce', expected: /status of 4\d\d/ }))
}

await runChecks(close)
