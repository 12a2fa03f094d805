// A person with Chromium who chooses between a password, node oidc-provider, and a provider that is away.

import assert from 'node:assert/strict'

import { close, isAt, press, signIn, visit } from './browser.mjs'
import { check, given, runChecks } from './checks.mjs'
import { look } from './looks.mjs'
import { signInAs, signOutThere, theirs, without } from './node-person.mjs'

const { app, wiki } = given.applications
const says = (page, words) => page.getByRole('heading', { level: 1, name: words, exact: true }).waitFor()
const button = (page, name) => page.locator(`button[name=provider][value=${name}]`)

const walk = (name, run, options) => check(name, () => visit(async (page, context) => {
  await without(context)
  await run(page, context)
}, { expected: theirs, ...options }))

walk('S138 a button by mouse, and the sign-out at a host through issuer and provider', async (page) => {
  await page.goto(`${app}/deep?q=1`)
  await button(page, 'corp').click()
  await signInAs(page, 'grace')
  await says(page, '/deep?q=1 for grace@example.com')
  await page.goto(`${wiki}/pages/1`)
  await page.goto(`${app}/oauth/sign_out`)
  await page.locator('button.primary').click()
  await signOutThere(page)
  await isAt(page, 'You are signed out')
  assert.equal(page.url(), `${app}/oauth/sign_out`)
  await page.goto(`${wiki}/pages/1`)
  await isAt(page, 'Sign in')
  await button(page, 'corp').click()
  await signInAs(page, 'heidi') // the provider asks who it is
  await page.waitForURL(`${wiki}/pages/1`)
})

walk('S138 a button by keyboard, which shows where it is', async (page) => {
  await page.goto(`${app}/start`)
  const focused = () => page.evaluate(() => {
    const at = document.activeElement
    return [at.getAttribute('name'), at.value, getComputedStyle(at).outlineStyle]
  })
  const way = []
  for (let i = 0; i < 12 && way.at(-1)?.[1] !== 'partner'; i++) {
    way.push(await focused())
    await page.keyboard.press('Tab')
  }
  const buttons = way.filter(([name]) => name === 'provider')
  assert.deepEqual(buttons.map(([, value]) => value), ['corp', 'partner'], JSON.stringify(way))
  assert.ok(buttons.every(([, , outline]) => outline !== 'none'), JSON.stringify(buttons))
  await button(page, 'corp').focus()
  await page.keyboard.press('Enter')
  await signInAs(page, 'grace')
  await says(page, '/start for grace@example.com')
})

walk('S138 without script', async (page) => {
  await page.goto(`${app}/start`)
  await button(page, 'corp').click()
  await signInAs(page, 'grace')
  await says(page, '/start for grace@example.com')
}, { javaScriptEnabled: false })

for (const [language, locale] of [['en', 'en-GB'], ['de', 'de-DE']]) {
  walk(`S138 the sign-in page with a password and two providers, in ${language}`, async (page) => {
    await page.goto(`${app}/start`)
    await look(page, 'providers', language)
    await press(page, 'button[value=partner]')
    await look(page, 'providers-away', language)
    assert.ok((await page.getByRole('main').textContent()).includes('Partner & Söhne'))
    if (language === 'en') {
      await signIn(page, given.ada)
      await says(page, '/start for ada@acme.example')
    }
  }, { locale })
}

await runChecks(close)
