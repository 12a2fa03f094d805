// A person with Chromium and an authenticator, at an issuer and two applications over TLS, one of them of another registrable domain.

import assert from 'node:assert/strict'

import { close, isAt, press, visit } from './browser.mjs'
import { check, given, runChecks } from './checks.mjs'
import { authenticator } from './passkey.mjs'

const { issuer, ada, ben } = given
const { app, wiki } = given.applications
const says = (page, words) => page.getByRole('heading', { level: 1, name: words, exact: true }).waitFor()
const button = '#passkey button'

async function types(page, { email, password }) {
  await page.fill('#email', email)
  await page.fill('#password', password)
  await press(page, 'form:has(#password) button')
}

// adds adds a passkey on the page that asks for one.
async function adds(page, phone) {
  await phone.touched(() => press(page, button))
  await isAt(page, 'Your recovery codes')
}

// presses presses the button of the sign-in page. The field for the address may have asked before, in which case it is not there any more.
async function presses(page) {
  await page.click(button, { timeout: 2000 }).catch(() => {})
}

check('W72 a rule asks for a factor: a passkey is added with one touch, and the page asked for comes', () => visit(async (page, context) => {
  const phone = await authenticator(page)
  await page.goto(`${app}/first`)
  await types(page, ada)
  await isAt(page, 'Add a second factor')
  await adds(page, phone)
  const [passkey] = await phone.passkeys()
  assert.ok(passkey.isResidentCredential && passkey.rpId === new URL(issuer).hostname, JSON.stringify(passkey))
  assert.ok(!Buffer.from(passkey.userHandle, 'base64').toString('latin1').includes('ada'))
  await page.click('a.primary')
  await says(page, `/first for ${ada.email}`)

  // One touch signs in, and serves every host.
  await context.clearCookies()
  await page.goto(`${app}/second?x=1`)
  await page.locator(button).waitFor()
  await phone.touched(async () => {
    await presses(page)
    await says(page, `/second?x=1 for ${ada.email}`)
  })
  await page.goto(`${wiki}/pages/vault/1`) // which needs class 2
  await says(page, `/pages/vault/1 for ${ada.email}`)
  assert.notEqual(new URL(wiki).hostname.split('.').at(-1), new URL(app).hostname.split('.').at(-1))

  // The field for the address offers it: with the touch, nothing is clicked at all.
  await context.clearCookies()
  await phone.touched(async () => {
    await page.goto(`${wiki}/pages/third`)
    await says(page, `/pages/third for ${ada.email}`)
  })

  // After the password it is the second factor.
  await context.clearCookies()
  await page.goto(`${app}/fourth`)
  await types(page, ada)
  await isAt(page, 'Confirm that it is you')
  await phone.touched(async () => {
    await page.click(button)
    await says(page, `/fourth for ${ada.email}`)
  })

  // Who presses cancel, or has no authenticator, is told, and can try again or go on with the password.
  await context.clearCookies()
  await page.goto(`${app}/fifth`)
  await types(page, ada)
  await page.evaluate(() => { navigator.credentials.get = () => Promise.reject(new DOMException('', 'NotAllowedError')) })
  await page.click(button)
  await page.locator('#passkey-failed').waitFor()

  // Renamed and removed on the account page; the authenticator hears of it.
  await context.clearCookies()
  await phone.touched(async () => {
    await page.goto(`${issuer}/oauth/login`)
    await isAt(page, 'Your account')
  })
  await page.click('summary')
  await page.fill('[name=factor_name]', 'Telephone')
  await press(page, '[name=rename_factor]')
  await page.getByRole('heading', { level: 3, name: 'Telephone' }).waitFor()
  assert.equal((await phone.passkeys()).length, 1)
  await press(page, '#factors ~ ul button[name=factor]')
  await page.getByText('It was removed.').waitFor()
  for (let i = 0; i < 50 && (await phone.passkeys()).length > 0; i++) await page.waitForTimeout(100)
  assert.equal((await phone.passkeys()).length, 0, 'the authenticator still has it')
}, { last: true }))

check('W73 a security key that does not verify its user is a second factor, and no sign-in alone', () => visit(async (page, context) => {
  const key = await authenticator(page, 'usb')
  await page.goto(`${app}/first`)
  await types(page, ben)
  await adds(page, key)
  await key.verifies(false)
  await context.clearCookies()
  await page.goto(`${app}/second`)
  await types(page, ben)
  await isAt(page, 'Confirm that it is you')
  await key.touched(async () => {
    await page.click(button)
    await says(page, `/second for ${ben.email}`)
  })
  await context.clearCookies()
  await page.goto(`${app}/third`)
  await key.touched(async () => {
    await page.click(button)
    await page.locator('#passkey-failed').waitFor()
  })
  await types(page, ben)
  await isAt(page, 'Confirm that it is you')
}))

check('W74 without script the pages offer no passkey, and everything else works', () => visit(async (page) => {
  await page.goto(`${app}/first`)
  assert.equal(await page.locator(button).isVisible(), false)
  await types(page, ben)
  await isAt(page, 'Confirm that it is you')
  assert.equal(await page.locator(button).isVisible(), false)
  assert.equal(await page.locator('#code').isVisible(), true)
}, { javaScriptEnabled: false }))

await runChecks(close)
