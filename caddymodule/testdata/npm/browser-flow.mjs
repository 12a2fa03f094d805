// A person with Chromium signs in, allows, denies and leaves.

import assert from 'node:assert/strict'

import { allow, arrive, ask, close, deny, home, isAt, loopback, redeem, refresh, signIn, subject, visit } from './browser.mjs'
import { check, given, runChecks } from './checks.mjs'

const { issuer, callback, ada, bob } = given
const { conf, spa, phone, house } = given.clients

check('sign-in, consent, and back with a code that is good', () => visit(async (page, context) => {
  const request = ask(spa)
  await page.goto(request.url)
  await isAt(page, 'Sign in')
  assert.match(await page.getByRole('main').textContent(), /Shop window asks you to sign in/)
  await signIn(page, ada)
  await isAt(page, 'Allow access?')
  const words = await page.getByRole('main').textContent()
  for (const said of ['Shop window', 'Ada Admin', ada.email, new URL(callback).host, 'Read public data', 'Act on your behalf']) {
    assert.ok(words.includes(said), `the page does not say ${said}`)
  }
  await allow(page)
  const tokens = await redeem(request, await arrive(page, request))
  assert.equal(tokens.scope, 'public trusted')
  assert.equal(subject(tokens.access_token), ada.id)

  // A72: a cookie that a script could read, or another site send, would be a find.
  const cookies = await context.cookies(issuer)
  for (const name of ['session', 'accessToken']) {
    const cookie = cookies.find((c) => c.name === name)
    assert.ok(cookie?.httpOnly && cookie.sameSite === 'Lax' && cookie.path === '/', JSON.stringify(cookie))
  }
}))

check('T124 a page of another origin redeems its code, calls a guarded route, and reads why it was refused', () => visit(async (page) => {
  const request = ask(spa)
  await page.goto(request.url)
  await signIn(page, ada)
  await allow(page)
  const answer = await arrive(page, request)
  assert.notEqual(new URL(page.url()).origin, new URL(issuer).origin)
  const seen = await page.evaluate(async ({ issuer, form }) => {
    const call = (path, options) => fetch(issuer + path, options)
    const tokens = await (await call('/oauth/token', { method: 'POST', body: new URLSearchParams(form) })).json()
    const headers = { Authorization: `Bearer ${tokens.access_token}`, 'X-Asked': 'before' }
    const good = await call('/shared/x', { method: 'PUT', headers })
    const bad = await call('/shared/x', { headers: { Authorization: 'Bearer bad' } })
    const again = await call('/oauth/token', { method: 'POST', body: new URLSearchParams(form) })
    return {
      scope: tokens.scope, good: good.status, bad: bad.status, challenge: bad.headers.get('www-authenticate'),
      again: (await again.json()).error, keys: (await (await call('/oauth/jwks')).json()).keys.length,
    }
  }, {
    issuer, form: {
      grant_type: 'authorization_code', client_id: spa.id, code: answer.get('code'), redirect_uri: request.redirectURI, code_verifier: request.verifier,
    },
  })
  assert.match(seen.challenge, /invalid_token/)
  delete seen.challenge
  assert.deepEqual(seen, { scope: 'public trusted', good: 200, bad: 401, again: 'invalid_grant', keys: 1 })
}, { expected: /status of 40[01] \(.*\) at .*\/(shared\/x|oauth\/token)$/ })) // Chromium says so of every refusal

check('a wrong password keeps the request and the address, and says so', () => visit(async (page) => {
  const request = ask(spa)
  await page.goto(request.url)
  await signIn(page, { email: ada.email, password: 'not the password' })
  const alert = page.getByRole('alert')
  assert.match(await alert.textContent(), /do not match/)
  await page.waitForLoadState()
  assert.match(await page.title(), /^Error/)
  assert.equal(await page.getByLabel('E-mail address').inputValue(), ada.email)
  assert.equal(await page.getByLabel('Password').inputValue(), '')
  await page.waitForFunction(() => document.activeElement.id === 'password')
  const known = await page.content()
  await signIn(page, { email: 'nobody@acme.example', password: 'not the password' })
  await page.locator('#email[value^=nobody]').waitFor() // as the server has written it, not as it was filled in
  await page.waitForLoadState()
  const unveil = (html) => html.replaceAll(/value="[^"]*"/g, '')
  assert.equal(unveil(await page.content()), unveil(known), 'the pages tell a known address from an unknown one')
  await signIn(page, ada)
  await allow(page)
  await arrive(page, request)
}))

check('A67 an unticked scope is not granted', () => visit(async (page) => {
  const request = ask(conf, { scope: 'public trusted orders.read' })
  await page.goto(request.url)
  await signIn(page, ada)
  await page.getByLabel('Read your orders').uncheck()
  await allow(page)
  assert.equal((await redeem(request, await arrive(page, request))).scope, 'public trusted')
}))

check('A59 a denial goes back as access_denied', () => visit(async (page) => {
  const request = ask(spa)
  await page.goto(request.url)
  await signIn(page, ada)
  await deny(page)
  const answer = await arrive(page, request)
  assert.equal(answer.get('error'), 'access_denied')
  assert.equal(answer.get('code'), null)
}))

check('A75 A76 what was allowed is remembered for a client with a secret, and for no other', () => visit(async (page) => {
  for (const client of [conf, spa]) {
    const first = ask(client)
    await page.goto(first.url)
    if (client === conf) await signIn(page, bob)
    await allow(page)
    await arrive(page, first)
  }
  const again = ask(conf)
  await page.goto(again.url)
  assert.equal((await redeem(again, await arrive(page, again))).scope, 'public trusted')
  await page.goto(ask(conf, { scope: 'public trusted orders.read' }).url)
  await isAt(page, 'Allow access?') // for more than before
  await page.goto(ask(conf, { prompt: 'consent' }).url)
  await isAt(page, 'Allow access?')
  await page.goto(ask(spa).url)
  await isAt(page, 'Allow access?')
}))

check('prompt=login asks for the password again', () => visit(async (page) => {
  const first = ask(house, { scope: 'public' })
  await page.goto(first.url)
  await signIn(page, ada)
  await arrive(page, first)
  const again = ask(house, { scope: 'public', prompt: 'login', login_hint: ada.email })
  await page.goto(again.url)
  await isAt(page, 'Sign in')
  assert.match(await page.getByRole('main').textContent(), /signed in already/)
  assert.equal(await page.getByLabel('E-mail address').inputValue(), ada.email)
  await signIn(page, ada)
  await arrive(page, again)
}))

check('another account can be used', () => visit(async (page) => {
  const request = ask(spa)
  await page.goto(request.url)
  await signIn(page, ada)
  await page.getByRole('link', { name: 'Use another account' }).click()
  await isAt(page, 'Sign in')
  await signIn(page, bob)
  await page.getByText('Bob Berg').waitFor()
  await allow(page)
  assert.equal(subject((await redeem(request, await arrive(page, request))).access_token), bob.id)
}))

check('A66 two tabs, two clients: each code goes to its own', () => visit(async (one, context) => {
  const two = await context.newPage()
  const [first, second] = [ask(spa), ask(phone, { redirect_uri: loopback, scope: 'public' })]
  await one.goto(first.url)
  await two.goto(second.url)
  await signIn(one, ada)
  await isAt(one, 'Allow access?')
  await signIn(two, ada) // the page is older than the session of the other tab
  await isAt(two, 'Allow access?')
  await allow(two)
  const answer = await arrive(two, second)
  await allow(one)
  const tokens = await redeem(first, await arrive(one, first))
  assert.equal(tokens.scope, 'public trusted')
  assert.equal((await redeem(second, answer)).scope, 'public')
}))

check('A83 a decision after the session has ended decides nothing', () => visit(async (page, context) => {
  const request = ask(spa)
  await page.goto(request.url)
  await signIn(page, ada)
  await isAt(page, 'Allow access?')
  const other = await context.newPage()
  await other.goto(`${issuer}/oauth/logout`)
  await other.getByRole('button', { name: 'Sign out' }).click()
  await isAt(other, 'You are signed out')
  await allow(page)
  await isAt(page, 'Sign in')
  await signIn(page, ada)
  await isAt(page, 'Allow access?')
}))

check('A63 one request is decided once, also by who goes back', () => visit(async (page) => {
  const request = ask(spa)
  await page.goto(request.url)
  await signIn(page, ada)
  await allow(page)
  const answer = await arrive(page, request)
  await page.goBack()
  await isAt(page, 'Allow access?')
  await allow(page)
  await isAt(page, 'You have already answered')
  assert.equal((await redeem(request, answer)).status, 200)
}, { expected: /status of 403/ }))

check('A68 the pages show nothing in a frame', () => visit(async (page) => {
  const framed = [ask(spa).url, ...['login', 'account', 'logout', 'authorize'].map((path) => `${issuer}/oauth/${path}`)]
  for (const url of framed) {
    await Promise.all([ // the console may tell of it when the page is there already
      page.waitForEvent('console', (m) => m.text().includes("frame-ancestors 'none'")),
      page.goto(`${new URL(callback).origin}/?frame=${encodeURIComponent(url)}`),
    ])
    const [, frame] = page.frames()
    assert.equal(await frame.locator('main').count(), 0, url)
  }
}, { expected: /frame-ancestors|status of 40[03]/ }))

for (const [name, client, parameters] of [
  ['another site', spa, {}],
  ['a port of the loopback address', phone, { redirect_uri: loopback }],
]) {
  check(`A69 the answer leaves the pages: ${name}`, () => visit(async (page) => {
    const request = ask(client, parameters)
    await page.goto(request.url)
    await signIn(page, ada)
    await allow(page)
    await arrive(page, request)
  }))
}

check('A69 the answer leaves the sign-in page, when nothing else is asked', () => visit(async (page) => {
  const request = ask(house, { scope: 'public' })
  await page.goto(request.url)
  await signIn(page, ada)
  await arrive(page, request)
}))

// Chromium holds each redirect behind a form against the policy of the form's page, also those of the application.
for (const [name, client, answer] of [
  ['allowed', spa, allow],
  ['denied', spa, deny],
  ['signed in, when nothing else is asked', house, async () => {}],
]) {
  check(`A69 the application sends the answer on to another origin: ${name}`, () => visit(async (page) => {
    const request = ask(client, { scope: 'public', state: 'hop' })
    await page.goto(request.url)
    await signIn(page, ada)
    await answer(page)
    const told = await arrive(page, request, home)
    assert.equal(told.get('error'), answer === deny ? 'access_denied' : null)
    if (answer !== deny) assert.equal((await redeem(request, told)).status, 200)
  }))
}

check('A69 a page behind the gate sends the browser on to another origin, and that to another', () => visit(async (page) => {
  await page.goto(`${issuer}/moved/orders`)
  await isAt(page, 'Sign in')
  await signIn(page, ada)
  await page.waitForURL(`${home}?state=hop`)
  await page.getByText('Back at the application').waitFor()
}))

check('A69 the answer leaves for an application on the device', () => visit(async (page) => {
  await page.goto(ask(phone, { redirect_uri: 'com.example.pocket:/callback' }).url)
  await signIn(page, ada)
  await isAt(page, 'Allow access?')
  const answered = page.waitForResponse((r) => r.request().method() === 'POST' && r.url() === `${issuer}/oauth/consent`)
  await allow(page)
  assert.match((await answered).headers().location, /^com\.example\.pocket:\/callback\?code=/)
}, { expected: /^request: com\.example\.pocket:/, last: true })) // Chromium goes on asking whether to open it

check('keyboard alone', () => visit(async (page) => {
  const request = ask(conf, { scope: 'public trusted orders.read', prompt: 'consent' })
  await page.goto(request.url)
  await focused(page, 'email')
  await page.keyboard.type(ada.email)
  await tab(page, 'password')
  await page.keyboard.type(ada.password)
  await tab(page, 'Sign in')
  await page.keyboard.press('Enter')
  await isAt(page, 'Allow access?')
  await tab(page, 'Use another account')
  for (const box of ['scope_0', 'scope_1', 'scope_2']) await tab(page, box)
  await page.keyboard.press('Space')
  assert.equal(await page.getByLabel('Read your orders').isChecked(), false)
  await tab(page, 'Allow')
  await tab(page, 'Deny')
  await tab(page, 'your account page')
  for (const back of ['Deny', 'Allow']) {
    await page.keyboard.press('Shift+Tab')
    await focused(page, back)
  }
  await page.keyboard.press('Enter')
  assert.equal((await redeem(request, await arrive(page, request))).scope, 'public trusted')
}))

async function tab(page, to) {
  await page.keyboard.press('Tab')
  await focused(page, to)
}

// focused wants an element, by its id or its words, to have the focus and to show it. A page that was just loaded, or a key that was
// just pressed, may give it in a moment.
async function focused(page, what) {
  await page.waitForFunction((name) => {
    const e = document.activeElement
    return e !== null && (e.id || e.textContent.trim()) === name
  }, what).catch(() => {}) // what has it instead is said below
  const element = await page.evaluate(() => {
    const e = document.activeElement
    const { outlineStyle, outlineWidth } = getComputedStyle(e)
    return { name: e.id || e.textContent.trim(), shown: outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 }
  })
  assert.deepEqual(element, { name: what, shown: true })
}

check('without JavaScript', () => visit(async (page) => {
  const request = ask(spa)
  await page.goto(request.url)
  await signIn(page, { email: ada.email, password: 'not the password' })
  await page.getByRole('alert').waitFor()
  await signIn(page, ada)
  await page.getByLabel('Act on your behalf').uncheck()
  await allow(page)
  assert.equal((await redeem(request, await arrive(page, request))).scope, 'public')
}, { javaScriptEnabled: false }))

check('A82 going back after signing out shows nothing', () => visit(async (page) => {
  await page.goto(`${issuer}/oauth/account`)
  await signIn(page, ada)
  await isAt(page, 'Your account')
  await page.getByRole('link', { name: 'Sign out' }).click()
  await page.getByRole('button', { name: 'Sign out', exact: true }).click() // the account page has one to sign out everywhere
  await isAt(page, 'You are signed out')
  for (const step of ['the sign-out page', 'the account page']) {
    await page.goBack()
    const words = await page.content()
    for (const secret of [ada.email, 'Ada Admin', 'Acme']) assert.ok(!words.includes(secret), `${step} says ${secret}`)
  }
  await isAt(page, 'Sign in')
}))

check('the account page takes an application its access', () => visit(async (page) => {
  const request = ask(spa)
  await page.goto(request.url)
  await signIn(page, ada)
  await allow(page)
  const tokens = await redeem(request, await arrive(page, request))
  await page.goto(`${issuer}/oauth/account`)
  await page.getByRole('button', { name: 'Remove access Shop window' }).click()
  await page.getByRole('status').getByText('Access removed.').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Remove access Shop window' }).count(), 0)
  assert.equal((await refresh(spa, tokens.refresh_token)).error, 'invalid_grant')
  assert.equal((await page.request.get(given.route, { headers: { authorization: `Bearer ${tokens.access_token}` } })).status(), 401)
}))

check('the account page ends another session, then all', () => visit((one) => visit(async (two) => {
  for (const page of [one, two]) {
    await page.goto(`${issuer}/oauth/account`)
    await signIn(page, bob)
    await isAt(page, 'Your account')
  }
  await two.getByRole('button', { name: /^End session .*Chrome/ }).first().click()
  await two.getByRole('status').getByText('Session ended.').waitFor()
  await one.reload()
  await isAt(one, 'Sign in')
  await signIn(one, bob)
  await isAt(one, 'Your account')
  await one.getByRole('button', { name: 'Sign out everywhere' }).click()
  await isAt(one, 'You are signed out')
  await two.reload()
  await isAt(two, 'Sign in')
})))

check('the account page by keyboard, and what its links say is one of its own sentences', () => visit(async (page) => {
  await page.goto(`${issuer}/oauth/account`)
  await signIn(page, ada)
  await isAt(page, 'Your account')
  await tab(page, 'Sign out')
  for (const word of ['nothing', 'session&x', '%3Cb%3E', '']) {
    await page.goto(`${issuer}/oauth/account?done=${word}`)
    assert.equal(await page.getByRole('status').count(), 0, word)
  }
}))

check('a problem leads on to the account page', () => visit(async (page) => {
  await page.goto(`${issuer}/oauth/login?pending=broken`)
  await page.getByRole('link', { name: 'Your account' }).click()
  await isAt(page, 'Sign in')
  await signIn(page, ada)
  await isAt(page, 'Your account')
}, { expected: /status of 400/ }))

check('a page behind the gate sends a browser to sign in, and gets it back', () => visit(async (page) => {
  const desk = `${issuer}/desk/orders?page=2&sort=%C3%A4`
  await page.goto(desk)
  await isAt(page, 'Sign in')
  await signIn(page, ada)
  await page.waitForURL(desk)
  assert.equal(await page.textContent('body'), 'ok')
}, { expected: /favicon\.ico/ })) // the application's page has none

await runChecks(close)
