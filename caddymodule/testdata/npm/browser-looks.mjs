// Every state of every page: axe-core finds nothing in it, light and wide, and dark and narrow, and it does not scroll sideways, in English and
// in German. Pictures are kept where they are asked for.

import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { join } from 'node:path'

import { arrive, ask, close, press, redeem, visit } from './browser.mjs'
import { check, given, runChecks } from './checks.mjs'
import { axe } from './looks.mjs'
import { authenticator } from './passkey.mjs'

const { issuer, screenshots, pictures, ada, bob, links, registrations } = given
const { conf, spa, portal, long } = given.clients
const phone = 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Version/18.5 Mobile/15E148 Safari/604.1'
const refusals = /status of 4\d\d/ // what the console says of the pages that are errors

// The pages have the same ids in every language.
async function signIn(page, { email, password }) {
  await page.fill('#email', email)
  await page.fill('#password', password)
  await press(page, 'form:has(#password) button')
}

async function types(page, code) {
  await page.fill('#code', code)
  await press(page, 'form:has(#code) button')
}

// What the authenticator of a person shows (RFC 6238), some periods from now.
let secret
let device
function totp(key, periods = 0) {
  const bits = [...key.replaceAll(' ', '')].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('')
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + periods))
  const mac = createHmac('sha1', Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)))).update(counter).digest()
  return String((mac.readUInt32BE(mac.at(-1) & 15) & 0x7fffffff) % 1e6).padStart(6, '0')
}

async function allowed(page, client, person) {
  const request = ask(client, { prompt: 'consent' })
  await page.goto(request.url)
  if (person) await signIn(page, person)
  await page.click('button[value=allow]')
  return redeem(request, await arrive(page, request))
}

// choose fills in a new password twice.
async function choose(page, password) {
  for (const field of await page.locator('input[autocomplete=new-password]').all()) await field.fill(password)
  await press(page, 'form:has(input[autocomplete=new-password]) button.primary')
}

// deviceURL returns the page that a television shows as a QR code.
async function deviceURL() {
  const body = new URLSearchParams({ client_id: 'tv', scope: 'public trusted' })
  const answer = await fetch(`${issuer}/oauth/device_authorization`, { method: 'POST', body })
  assert.equal(answer.status, 200)
  return (await answer.json()).verification_uri_complete
}

// Each state is a way to it. They run in order, in one browser.
const states = {
  'sign-in': (page) => page.goto(ask(portal).url),
  'sign-in-wrong-password': (page) => signIn(page, { email: ada.email, password: 'not the password' }),
  'sign-in-too-many-attempts': async (page) => {
    for (let i = 0; i < 4; i++) await signIn(page, { email: 'eve@acme.example', password: 'not the password' })
  },
  'sign-in-alone': (page) => page.goto(`${issuer}/oauth/login`),
  'account-empty': (page) => signIn(page, bob),
  'factor-add': (page) => press(page, 'button[value=add]'),
  'factor-add-wrong': (page) => types(page, '000000'),
  'factor-codes': async (page) => {
    secret = await page.inputValue('#secret')
    await types(page, totp(secret))
  },
  'account-factors': (page) => press(page, 'a.primary'),
  factor: async (page) => {
    await page.goto(`${issuer}/oauth/login?switch=1`)
    await signIn(page, bob)
  },
  'factor-wrong': (page) => types(page, '000000'),
  'account-factor-removed': async (page) => {
    await types(page, totp(secret, 1)) // a code is good for one use
    await press(page, '#factors ~ ul button')
  },
  'passkey-add': (page) => press(page, 'button[value=add_passkey]'),
  'passkey-add-failed': async (page) => {
    await page.evaluate(() => { navigator.credentials.create = () => Promise.reject(new DOMException('', 'NotAllowedError')) })
    await page.click('#passkey button')
    await page.waitForSelector('#passkey-failed:not([hidden])')
  },
  'passkey-codes': async (page) => {
    device = await authenticator(page)
    await page.reload()
    await device.touched(() => press(page, '#passkey button'))
  },
  'account-passkeys': async (page) => {
    await press(page, 'a.primary')
    await page.click('summary')
  },
  'passkey-factor': async (page) => {
    await page.goto(`${issuer}/oauth/login?switch=1`)
    await signIn(page, bob)
  },
  'account-passkey-removed': async (page) => {
    await device.touched(() => press(page, '#passkey button'))
    await press(page, '#factors ~ ul button[name=factor]')
  },
  'sign-in-passkey-refused': async (page) => {
    await page.goto(`${issuer}/oauth/login?switch=1`)
    await page.evaluate(() => {
      const form = document.getElementById('passkey')
      form.elements.passkey.value = 'forged'
      form.submit()
    })
    await page.waitForSelector('#notice')
  },
  forgotten: async (page) => {
    await page.goto(`${issuer}/oauth/login?switch=1`)
    await press(page, 'a[href*=forgotten]')
  },
  'forgotten-sent': async (page) => {
    await page.fill('#email', 'nobody@acme.example')
    await press(page, 'button.primary')
  },
  'sign-up': async (page) => {
    await page.goto(`${issuer}/oauth/login?switch=1`)
    await press(page, 'a[href*=sign_up]')
  },
  'sign-up-foreign': async (page) => {
    await page.fill('#email', 'nobody@acme.example')
    await press(page, 'button.primary')
  },
  'sign-up-sent': async (page) => {
    await page.fill('#email', 'mia@new.example')
    await press(page, 'button.primary')
  },
  registration: async (page) => page.goto(issuer + registrations[await page.locator('html').getAttribute('lang')]),
  'registration-refused': async (page) => {
    await page.fill('#name', 'x'.repeat(300))
    await choose(page, 'a horse, a battery, a staple')
    await page.waitForSelector('[role=alert]')
  },
  link: async (page) => page.goto(links[await page.locator('html').getAttribute('lang')]),
  'link-too-short': async (page) => {
    await choose(page, 'short')
    await page.waitForSelector('[role=alert]')
  },
  'account-own': (page) => choose(page, 'a horse, a battery, a staple'),
  'account-own-refused': async (page) => {
    await page.fill('#profile-name', 'x'.repeat(300))
    await press(page, 'button[value=profile]')
    await page.waitForSelector('[role=alert]')
  },
  'link-spent': async (page) => page.goto(links[await page.locator('html').getAttribute('lang')]),
  'sign-in-again': (page) => page.goto(ask(portal, { prompt: 'login', login_hint: ada.email }).url),
  consent: async (page) => {
    await page.goto(ask(portal, { scope: 'public trusted orders.read refresh_token', prompt: 'login' }).url)
    await signIn(page, ada)
  },
  'device-enter': (page) => page.goto(`${issuer}/oauth/device`),
  'device-wrong': async (page) => {
    await page.fill('#user_code', 'BBBB-BBBB')
    await press(page, 'button.primary')
  },
  'device-consent': async (page) => {
    await page.goto(await deviceURL())
    await press(page, 'button.primary')
  },
  'device-allowed': (page) => press(page, 'button[value=allow]'),
  'device-denied': async (page) => {
    await page.goto(await deviceURL())
    await press(page, 'button.primary')
    await press(page, 'button[value=deny]')
  },
  'consent-long': (page) => page.goto(ask(long, { scope: 'public' }).url),
  account: async (page) => {
    await visit((other) => allowed(other, conf, ada), { userAgent: phone })
    await allowed(page, spa)
    await page.goto(`${issuer}/oauth/account`)
  },
  'account-done': async (page) => {
    await press(page, 'button[name=application]')
    await page.waitForSelector('[role=status]')
  },
  'sign-out': (page) => page.goto(`${issuer}/oauth/logout`),
  'signed-out': (page) => press(page, 'button.primary'),
  'problem-client': (page) => page.goto(`${issuer}/oauth/authorize?client_id=nobody`),
  'problem-request': (page) => page.goto(`${issuer}/oauth/consent`),
  'problem-expired': (page) => page.goto(`${issuer}/oauth/login?pending=broken`),
  'problem-form': async (page) => {
    await page.goto(`${issuer}/oauth/login`)
    await page.evaluate(() => { document.querySelector('[name=form_token]').value = 'forged' })
    await signIn(page, ada)
  },
  'problem-decided': async (page) => {
    await allowed(page, spa, ada)
    await page.goBack()
    await press(page, 'button[value=allow]')
    await page.waitForSelector('body.problem')
  },
}

// A scheme changes colours and a width the layout, so that each needs to be looked at once; a language changes widths only. Of the widths, 640
// and 320 are 1280 at a zoom of 200 % and 400 % (WCAG 2.2, 1.4.4 and 1.4.10), and 360 is a phone. Each page is first looked at as the one before
// was last.
for (const [language, locale, looks] of [
  ['en', 'en-GB', [['light', 1280], ['dark', 360], ['light', 320]]],
  ['de', 'de-DE', [['light', 640], ['light', 320]]],
]) {
  check(`${language}: every state of every page`, () => visit(async (page) => {
    for (const [state, go] of Object.entries(states)) {
      await go(page)
      assert.equal(await page.locator('html').getAttribute('lang'), language, state)
      if (language === 'en') await page.evaluate(axe)
      for (const [scheme, width] of looks) {
        await dress(page, scheme, width)
        const where = `${state}-${language}-${scheme}-${width}`
        if (pictures) await page.screenshot({ path: join(screenshots, `${where}.png`), fullPage: true })
        if (language === 'en' && width !== 320) nothing(await findings(page), where)
        nothing(await sideways(page), where)
      }
      looks.reverse()
    }
  }, { locale, expected: refusals }))
}

async function dress(page, colorScheme, width) {
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
  if (page.viewportSize().width !== width) await page.setViewportSize({ width, height: 800 })
}

const rules = { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations'] }

// findings are what axe-core finds: the rule, how bad it is, and where.
async function findings(page) {
  const { violations, passes } = await page.evaluate((options) => globalThis.axe.run(options), rules)
  assert.ok(passes.length > 5, 'axe-core looked at nothing')
  return violations.map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map((n) => n.html).join(' ')}`)
}

const nothing = (found, where) => assert.equal(found.length, 0, `${where}: ${found.join(', ')}`)

// sideways are the elements that stick out of the window.
function sideways(page) {
  return page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement
    const out = [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > clientWidth + 0.5)
    return [...(scrollWidth > clientWidth ? [`scrolls to ${scrollWidth}`] : []), ...out.map((e) => e.outerHTML.slice(0, 80))]
  })
}

check('a zoom of 200 % keeps everything in reach', () => visit(async (page) => {
  await page.goto(ask(portal, { scope: 'public trusted orders.read' }).url)
  await page.screenshot({ path: join(screenshots, 'zoom-sign-in.png'), fullPage: true })
  await signIn(page, ada)
  await page.screenshot({ path: join(screenshots, 'zoom-consent.png'), fullPage: true })
  for (const button of ['allow', 'deny']) {
    await page.locator(`button[value=${button}]`).scrollIntoViewIfNeeded()
    const { x, y, width, height } = await page.locator(`button[value=${button}]`).boundingBox()
    assert.ok(x >= 0 && y >= 0 && x + width <= 640 && y + height <= 400, button)
  }
}, { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 }))

check('every card begins at one height, and on a phone the buttons of the account page have one width', () => visit(async (page) => {
  const heights = new Set()
  const measure = async () => heights.add((await page.locator('main').boundingBox()).y)
  await page.goto(ask(portal, { prompt: 'consent' }).url)
  await measure()
  await signIn(page, ada)
  await page.waitForSelector('body.consent')
  await measure()
  await allowed(page, conf)
  await page.goto(`${issuer}/oauth/account`)
  await measure()
  assert.equal(heights.size, 1, [...heights].join(', '))
  await dress(page, 'light', 360)
  const widths = await page.locator('button').evaluateAll((all) => all.map((b) => b.getBoundingClientRect().width))
  assert.ok(widths.length > 2 && new Set(widths).size === 1, widths.join(', '))
}))

check('the pictures of the README', () => visit(async (page) => {
  const keep = async (name) => {
    await page.mouse.move(0, 0)
    await page.evaluate(() => document.activeElement.blur())
    const picture = await page.screenshot({ path: join(screenshots, 'readme', `${name}.png`) })
    assert.ok(picture.length < 100_000, `${name} has ${picture.length} bytes`)
  }
  await page.emulateMedia({ reducedMotion: 'reduce' })
  await page.goto(ask(portal, { login_hint: ada.email }).url)
  await keep('sign-in')
  await page.goto(ask(portal, { scope: 'public trusted orders.read', prompt: 'login' }).url)
  await signIn(page, ada)
  await page.waitForSelector('body.consent')
  await keep('consent')
}, { viewport: { width: 500, height: 870 }, deviceScaleFactor: 1.25 }))

await runChecks(close)
