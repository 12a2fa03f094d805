// A person with Chromium at two hosts behind the gate, where there is no issuer: they sign in at node oidc-provider.

import assert from 'node:assert/strict'

import { close, isAt, visit } from './browser.mjs'
import { check, given, runChecks } from './checks.mjs'
import { look } from './looks.mjs'
import { atProvider, signInAs, signOutThere, theirs, without } from './node-person.mjs'

const { app, wiki } = given.applications
const says = (page, words) => page.getByRole('heading', { level: 1, name: words, exact: true }).waitFor()

const walk = (name, run, options) => check(name, () => visit(async (page, context) => {
  await without(context)
  await run(page, context)
}, { expected: theirs, ...options }))

async function arriveAs(page, name, url = `${app}/start`) {
  await page.goto(url)
  await signInAs(page, name)
  await says(page, `${url.slice(new URL(url).origin.length)} for ${name}@example.com`)
}

walk('S137 the provider asks once for two hosts, and back goes to where the person came from', async (page, context) => {
  const deep = `${app}/deep/link%20x?q=1`
  await arriveAs(page, 'grace', deep)
  assert.equal(page.url(), deep)
  const other = await context.newPage()
  await other.goto(`${wiki}/pages/1`)
  await says(other, '/pages/1 for grace@example.com')
  await page.goto(`${app}/second`)
  await page.goBack()
  await says(page, '/deep/link%20x?q=1 for grace@example.com')
})

walk('S137 two tabs at the provider come back to a page each', async (page, context) => {
  const other = await context.newPage()
  await page.goto(`${app}/first`)
  await other.goto(`${app}/second`)
  await signInAs(page, 'grace')
  await says(page, '/first for grace@example.com')
  await signInAs(other, 'grace', { known: true })
  await says(other, '/second for grace@example.com')
})

walk('S137 signing out by keyboard signs out there too, and somebody else can sign in', async (page, context) => {
  await arriveAs(page, 'grace')
  const other = await context.newPage()
  await other.goto(`${wiki}/pages/1`)
  await says(other, '/pages/1 for grace@example.com')
  await page.goto(`${app}/oauth/sign_out`)
  await page.keyboard.press('Tab')
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Sign out')
  await page.keyboard.press('Enter')
  await signOutThere(page)
  await isAt(page, 'You are signed out')
  assert.equal(page.url(), `${app}/oauth/sign_out`)
  await other.reload()
  await atProvider(other) // which asks who it is
  await page.getByRole('link', { name: 'Sign in' }).click()
  await signInAs(page, 'heidi')
  await isAt(page, 'You are signed in')
  await page.goto(`${app}/heidi/1`)
  await says(page, '/heidi/1 for heidi@example.com')
})

for (const [language, locale] of [['en', 'en-GB'], ['de', 'de-DE']]) {
  walk(`S137 the pages of hosts without an issuer, in ${language}`, async (page) => {
    await page.goto(`${app}/start`)
    await atProvider(page)
    await page.getByRole('link', { name: 'Cancel' }).click()
    await page.waitForURL(`${app}/oauth/callback`)
    await look(page, 'direct-cancelled', language)
    await page.locator('a.button').click()
    await signInAs(page, 'grace')
    await says(page, '/start for grace@example.com')
    await page.goto(`${app}/heidi/1`)
    await look(page, 'direct-denied', language)
    await page.goto(`${app}/oauth/sign_out`)
    await look(page, 'direct-sign-out', language)
    await page.locator('button.primary').click()
    await signOutThere(page)
    await page.waitForURL(`${app}/oauth/sign_out`)
    await look(page, 'direct-signed-out', language)
  }, { locale })
}

await runChecks(close)
