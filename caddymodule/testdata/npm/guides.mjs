// Signs in to the applications of docs/guides, and out again, as a person does.

import assert from 'node:assert/strict'

import { close, isAt, signIn, visit } from './browser.mjs'
import { check, given, runChecks } from './checks.mjs'

const { ada, applications } = given
const expected = /favicon\.ico/

const press = (page, name) => page.locator('a, button').getByText(name, { exact: true }).click()
const isSignedOut = (page) => page.getByText('Signed out').waitFor()

// begin goes from the application to Gatehouse.
async function begin(page, name) {
  await page.goto(applications[name])
  await isSignedOut(page)
  await press(page, 'Sign in')
  if (name === 'authjs') await press(page, 'Sign in with Gatehouse')
}

// arrive allows the application to sign in, where Gatehouse asks: it does so once for each application.
async function arrive(page) {
  const ask = page.getByRole('button', { name: 'Allow' })
  const done = page.getByText('Signed in as Ada Admin, ada@acme.example')
  await ask.or(done).waitFor()
  if (await ask.isVisible()) await ask.click()
  await done.waitFor()
}

// renewInFrame runs in the page: silent renewal as without a refresh token.
async function renewInFrame(urls) {
  const { UserManager, WebStorageStateStore } = await import('oidc-client-ts')
  const manager = new UserManager({
    ...urls, client_id: 'board', scope: 'openid profile', userStore: new WebStorageStateStore({ store: sessionStorage }),
  })
  const before = await manager.getUser()
  const { access_token, profile } = await manager.signinSilent({ forceIframeAuth: true })
  if (access_token === before.access_token || profile.sub !== before.profile.sub) throw new Error('it is not renewed')
}

for (const name of Object.keys(applications)) {
  check(`${name}: sign-in, claims, refresh, sign-out`, () => visit(async (page) => {
    await begin(page, name)
    await signIn(page, ada)
    await arrive(page)
    if (['express', 'go', 'python'].includes(name)) {
      const expired = Date.now() + (name === 'python' ? 6000 : 0) // its token lives for five seconds
      do {
        await page.goto(`${applications[name]}/api`)
        await page.getByText('Hello u-ada').waitFor()
      } while (Date.now() < expired)
      await page.goto(applications[name])
    }
    if (name === 'spa') {
      await press(page, 'Call the API')
      await page.getByText('Hello u-ada').waitFor()
      assert.equal(new URL(page.url()).search, '')
      await page.evaluate(renewInFrame, { authority: given.issuer, redirect_uri: `${applications.spa}/` })
    }
    if (name === 'apache') {
      assert.equal(await page.locator('#user').textContent(), 'u-ada')
      const before = await page.locator('#token').textContent()
      await page.reload()
      assert.notEqual(await page.locator('#token').textContent(), before)
    }
    await press(page, 'Sign out')
    await isSignedOut(page)
    await begin(page, name)
    await isAt(page, 'Sign in') // with a password: the session at Gatehouse is over as well
  }, { expected }))
}

check('back-channel: signing out of one application signs out of those that are told', () => visit(async (page) => {
  const told = ['express', 'apache']
  await begin(page, 'passport')
  await signIn(page, ada)
  await arrive(page)
  for (const name of told) {
    await begin(page, name)
    await arrive(page) // without a password
  }
  await page.goto(applications.passport)
  await press(page, 'Sign out')
  await isSignedOut(page)
  for (const name of told) {
    const url = name === 'apache' ? `${applications.apache}/private/` : applications[name]
    const out = page.getByText('Signed out').or(page.getByRole('heading', { level: 1, name: 'Sign in' }))
    for (let attempt = 0; ; attempt++) {
      await page.goto(url)
      await out.or(page.getByText('Signed in as')).waitFor()
      if (await out.isVisible()) break
      assert.ok(attempt < 300, `${name} has not been told`)
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}, { expected }))

await runChecks(close)
