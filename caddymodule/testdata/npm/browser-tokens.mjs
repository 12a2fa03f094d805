// A person with Chromium makes personal access tokens on the account page, uses them and ends them.

import assert from 'node:assert/strict'

import { close, isAt, press, visit } from './browser.mjs'
import { check, given, runChecks } from './checks.mjs'
import { look } from './looks.mjs'

const { issuer, ada, route } = given
const account = `${issuer}/oauth/account`
const made = (page) => page.locator('#made')
const status = async (token) => (await fetch(route, { headers: { authorization: `Bearer ${token}` } })).status

async function open(page) {
  await page.goto(account)
  await page.fill('#email', ada.email)
  await page.fill('#password', ada.password)
  await press(page, 'button.primary')
  await page.locator('#tokens').waitFor()
}

async function make(page, name, ...scopes) {
  await page.fill('#token-name', name)
  for (const scope of scopes) await page.check(`input[value="${scope}"]`)
  await press(page, 'button[value=token]')
}

for (const [language, locale] of [['en', 'en-GB'], ['de', 'de-DE']]) {
  check(`Q193 every state of the section, in ${language}`, () => visit(async (page) => {
    await open(page)
    await look(page, 'tokens-none', language)
    await page.evaluate(() => { document.querySelector('#token-name').required = false })
    await make(page, ' ', 'orders.read')
    await look(page, 'tokens-refused', language)
    assert.ok(await page.isChecked('input[value="orders.read"]'))
    await make(page, 'Sicherung der Bestellungen auf host7 <script>', 'public')
    await look(page, 'tokens-made', language)
    assert.match(await made(page).inputValue(), /^gh_pat_[0-9A-Za-z]{36}$/)
    await page.goto(account)
    await look(page, 'tokens-list', language)
    await press(page, 'button[name=personal_token]')
    await page.locator('[role=status]').waitFor()
    await look(page, 'tokens-ended', language)
  }, { locale, expected: /status of 400/ }))
}

check('Q193 by keyboard: made, copied, used and ended', () => visit(async (page) => {
  await open(page)
  await page.focus('#token-name')
  await page.keyboard.type('by keyboard')
  for (const key of ['Tab', 'Tab', 'Tab', 'Space', 'Tab', 'ArrowUp', 'Tab']) await page.keyboard.press(key)
  assert.equal(await page.evaluate(() => document.activeElement.value), 'token')
  await Promise.all([page.waitForEvent('load'), page.keyboard.press('Enter')])
  const token = await made(page).inputValue()
  assert.equal(page.url(), `${account}#tokens`)
  while (await page.evaluate(() => document.activeElement.id) !== 'made') await page.keyboard.press('Tab')
  assert.deepEqual(await page.evaluate(() => [document.activeElement.selectionStart, document.activeElement.selectionEnd]), [0, token.length])
  assert.equal(await status(token), 200)
  await page.goto(account)
  assert.ok(!(await page.content()).includes(token))
  await page.getByRole('button', { name: 'End token by keyboard' }).click()
  await page.getByText('The token has ended.').waitFor()
  assert.equal(await status(token), 401)
}))

check('Q193 loaded again, and back in history: no second token, and the first is not shown again', () => visit(async (page) => {
  await open(page)
  await make(page, 'once', 'orders.read')
  const token = await made(page).inputValue()
  await page.reload()
  await page.locator('#fault').waitFor()
  assert.ok(!(await page.content()).includes('gh_pat_'))
  assert.equal(await page.locator('button[name=personal_token]').count(), 1)
  await make(page, 'twice', 'orders.read')
  const second = await made(page).inputValue()
  assert.notEqual(second, token)
  await page.goto(`${issuer}/oauth/logout`)
  await page.goBack().catch((error) => assert.match(String(error), /ERR_CACHE_MISS/)) // Chromium asks whether to send the form again
  await page.waitForURL((url) => !url.pathname.endsWith('/logout')) // its own page then
  await page.locator('body').waitFor()
  assert.equal(await made(page).count(), 0)
  await page.goto(account)
  assert.equal(await page.locator('button[name=personal_token]').count(), 2)
  for (let i = 0; i < 2; i++) await press(page, 'button[name=personal_token]')
  assert.equal(await status(token), 401)
}, { expected: /status of 409|ERR_CACHE_MISS/ }))

check('Q193 without script, in two tabs', () => visit(async (page, context) => {
  await open(page)
  const other = await context.newPage()
  await other.goto(account)
  for (const tab of [page, other]) {
    await make(tab, 'a tab', 'orders.read')
    assert.equal(await status(await made(tab).inputValue()), 200)
  }
  await isAt(page, 'Your account')
}, { javaScriptEnabled: false }))

await runChecks(close)
